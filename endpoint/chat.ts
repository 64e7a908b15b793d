// POST /v1/chat/completions: https://platform.openai.com/docs/api-reference/chat. Token ids are spelled as vLLM spells them.

import type { SampledToken } from '../policy/decoding.ts'
import { usageOf, type Api, type ChatMessage, type ToolCall } from './api.ts'
import { joinChat } from './chat_chunks.ts'
import { invalid } from './errors.ts'
import { flagIn, integerIn, isJson, listIn, recordIn, textIn, wrong, type Json } from './fields.ts'
import { MAX_TOP_LOGPROBS, readFormat, readShared } from './sampling.ts'
import { MAX_TOOLS, readTool, readToolChoice } from './tools.ts'

/** As OpenAI has it. */
export const MAX_MESSAGES = 2_048

export const chat: Api = {
  path: '/chat/completions',
  operation: 'chat',
  id_prefix: 'chatcmpl-',
  terminator: 'data: [DONE]\n\n',

  read(body) {
    const messages = readMessages(body)
    const tools = (listIn(body, 'tools', MAX_TOOLS) ?? []).map((tool, i) => {
      if (!isJson(tool) || tool.type !== 'function') throw wrong(`tools[${i}]`, 'a tool of type "function"', tool)
      return readTool(tool.function, `tools[${i}].function`)
    })
    const tool_choice = readToolChoice(body, tools, (choice) => isJson(choice.function) && choice.function.name)
    const parallel_tool_calls = flagIn(body, 'parallel_tool_calls') ?? true
    const top_logprobs = integerIn(body, 'top_logprobs', 0, MAX_TOP_LOGPROBS)
    const logprobs = flagIn(body, 'logprobs') ?? false
    if (top_logprobs !== undefined && !logprobs) throw invalid('top_logprobs', `'top_logprobs' may only be given where 'logprobs' is true`)
    return {
      ...readShared(body),
      prompt: { kind: 'chat', messages, tools, tool_choice, parallel_tool_calls },
      max_tokens: integerIn(body, 'max_completion_tokens', 1) ?? integerIn(body, 'max_tokens', 1),
      logprobs: logprobs ? (top_logprobs ?? 0) : null,
      format: readFormat(recordIn(body, 'response_format'), 'response_format', 'json_schema'),
    }
  },

  whole(head, ask, answers) {
    return {
      ...envelope(head, 'chat.completion'),
      choices: answers.map(({ text, tool_calls, finish_reason, tokens }, index) => ({
        index,
        message: {
          role: 'assistant',
          content: text === '' && tool_calls.length > 0 ? null : text,
          refusal: null,
          ...(tool_calls.length > 0 && { tool_calls: tool_calls.map(written) }),
        },
        logprobs: ask.logprobs === null ? null : { content: tokens.map(logprobOf), refusal: null },
        finish_reason,
        ...(ask.return_token_ids && { token_ids: tokens.map(({ id }) => id) }),
      })),
      usage: usageOf(head, answers),
      ...(ask.return_token_ids && { prompt_token_ids: head.prompt_token_ids }),
    }
  },

  events(head, ask, emit) {
    // With all that each has: what is added to a spread makes a hidden class of its own each time.
    const same = { ...envelope(head, 'chat.completion.chunk'), choices: [], ...(ask.include_usage && { usage: null }) }
    const chunk = (choices: readonly object[], more: object = {}) => emit({ ...same, choices, ...more })
    const opened = new Set<number>()
    const open = (index: number) => {
      if (opened.has(index)) return
      const prompt = opened.size === 0 && ask.return_token_ids ? { prompt_token_ids: head.prompt_token_ids } : {}
      opened.add(index)
      chunk([{ index, delta: { role: 'assistant', content: '', refusal: null }, logprobs: null, finish_reason: null }], prompt)
    }
    return {
      piece(index, { text, tool_calls, tokens }) {
        open(index)
        if (text === '' && tool_calls.length === 0 && !ask.return_token_ids && ask.logprobs === null) return
        const delta = {
          ...(text !== '' && { content: text }),
          ...(tool_calls.length > 0 && { tool_calls: tool_calls.map(writtenPiece) }),
        }
        const logprobs = ask.logprobs === null ? null : { content: tokens.map(logprobOf), refusal: null }
        const ids = ask.return_token_ids ? { token_ids: tokens.map(({ id }) => id) } : {}
        chunk([{ index, delta, logprobs, finish_reason: null, ...ids }])
      },
      end(index, { finish_reason }) {
        open(index)
        chunk([{ index, delta: {}, logprobs: null, finish_reason }])
      },
      close(answers) {
        if (ask.include_usage) chunk([], { usage: usageOf(head, answers) })
      },
    }
  },

  join: joinChat,
}

const envelope = (
  { id, created, model, fingerprint }: { id: string; created: number; model: string; fingerprint: string | null },
  object: string,
) => ({
  ...{ id, object, created, model, system_fingerprint: fingerprint },
})

const written = ({ id, name, arguments: args }: ToolCall) => ({ id, type: 'function', function: { name, arguments: args } })

const writtenPiece = ({ index, id, name, arguments: args }: { index: number; id?: string; name?: string; arguments: string }) =>
  id === undefined ? { index, function: { arguments: args } } : { index, id, type: 'function', function: { name, arguments: args } }

export const logprobOf = ({ text, logprob, top }: SampledToken) => ({
  ...oneLogprob({ text, logprob }),
  top_logprobs: top.map(oneLogprob),
})

const oneLogprob = ({ text, logprob }: { text: string; logprob: number }) => ({ token: text, logprob, bytes: [...Buffer.from(text)] })

function readMessages(body: Json): ChatMessage[] {
  const messages = listIn(body, 'messages', MAX_MESSAGES)
  if (!messages || messages.length === 0) throw invalid('messages', `'messages' must be a list of at least one message`)
  const asked = new Set<string>()
  return messages.map((message, i) => {
    const at = `messages[${i}]`
    if (!isJson(message)) throw wrong(at, 'an object', message)
    const read = readMessage(message, at)
    for (const { id } of read.tool_calls ?? []) asked.add(id)
    if (read.role === 'tool' && !asked.has(read.tool_call_id ?? ''))
      throw invalid(`${at}.tool_call_id`, `'${at}' answers a tool call that no message before it makes`)
    return read
  })
}

const ROLES: Readonly<Record<string, ChatMessage['role']>> = {
  ...{ system: 'system', developer: 'system', user: 'user', assistant: 'assistant', tool: 'tool' },
}

function readMessage(message: Json, at: string): ChatMessage {
  const role = typeof message.role === 'string' && Object.hasOwn(ROLES, message.role) ? ROLES[message.role]! : undefined
  if (!role) throw wrong(`${at}.role`, `one of ${Object.keys(ROLES).join(', ')}`, message.role)
  const name = textIn(message, 'name', `${at}.name`)
  const tool_calls = role === 'assistant' ? listIn(message, 'tool_calls', MAX_TOOLS, `${at}.tool_calls`) : undefined
  const tool_call_id = role === 'tool' ? textIn(message, 'tool_call_id', `${at}.tool_call_id`) : undefined
  const content = readContent(message.content ?? undefined, `${at}.content`)
  if (content === undefined && !tool_calls?.length) throw wrong(`${at}.content`, 'a string or a list of parts', message.content)
  return {
    role,
    content: content ?? '',
    ...(tool_calls?.length && { tool_calls: tool_calls.map((call, i) => readToolCall(call, `${at}.tool_calls[${i}]`)) }),
    ...(tool_call_id !== undefined && { tool_call_id }),
    ...(name !== undefined && { name }),
  }
}

/** The text of a content, which may be in parts. */
export function readContent(content: unknown, at: string): string | undefined {
  if (content === undefined || typeof content === 'string') return content
  if (!Array.isArray(content)) throw wrong(at, 'a string or a list of parts', content)
  const texts = content.map((part: unknown, i) => {
    const text = isJson(part) && (part.text ?? part.refusal)
    if (typeof text !== 'string') {
      const type = isJson(part) ? String(part.type) : 'unknown'
      throw invalid(`${at}[${i}]`, `'${at}[${i}]' is of type "${type}": this model reads only text`, 'unsupported_content')
    }
    return text
  })
  return texts.join('')
}

function readToolCall(call: unknown, at: string): ToolCall {
  const fn = isJson(call) ? call.function : undefined
  if (!isJson(call) || !isJson(fn)) throw wrong(at, 'a call of a function', call)
  const [id, name, args] = [
    textIn(call, 'id', `${at}.id`),
    textIn(fn, 'name', `${at}.function.name`),
    textIn(fn, 'arguments', `${at}.function.arguments`),
  ]
  if (id === undefined || name === undefined) throw wrong(at, 'a call with "id" and "function.name"', call)
  return { id, name, arguments: args ?? '' }
}
