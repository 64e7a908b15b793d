// POST /v1/responses: https://platform.openai.com/docs/api-reference/responses. Of its tools functions only.

import type { Answer, Api, Ask, ChatMessage, Emit, Head, Tool, ToolCall } from './api.ts'
import { logprobOf, MAX_MESSAGES, readContent } from './chat.ts'
import { invalid } from './errors.ts'
import { flagIn, integerIn, isJson, listIn, recordIn, textIn, wrong, type Json } from './fields.ts'
import type { Remembered } from './remembered.ts'
import { callItemId, messageId, responseEvents } from './response_events.ts'
import { MAX_TOP_LOGPROBS, readFormat, readShared } from './sampling.ts'
import { MAX_TOOLS, readTool, readToolChoice } from './tools.ts'

/** `remembered`: what clients may refer to instead of sending it again. */
export function createResponses(remembered: Remembered): Api {
  /** The body with what it refers to in its place. */
  function resolve(body: Json): Json {
    const previous = textIn(body, 'previous_response_id')
    const before = previous === undefined ? [] : remembered.conversation(previous)
    if (!before)
      throw invalid('previous_response_id', `the response "${previous}" is not known here (any more)`, 'previous_response_not_found')
    const items = inputItems(body).map((item, i) => {
      if (!isJson(item) || item.type !== 'item_reference') return item
      const known = remembered.item(String(item.id))
      if (!known) throw invalid(`input[${i}]`, `the item "${String(item.id)}" is not known here (any more)`, 'item_not_found')
      return known
    })
    return { ...body, input: [...before, ...items] }
  }

  return {
    path: '/responses',
    operation: 'chat',
    id_prefix: 'resp_',
    terminator: '',
    resolve,

    read(body) {
      for (const name of ['background', 'conversation', 'prompt', 'max_tool_calls'])
        if (body[name]) throw invalid(name, `'${name}' is not supported by this model`, 'unsupported_parameter')
      const tools = readTools(body)
      const include = listIn(body, 'include', MAX_TOOLS) ?? []
      const top_logprobs = integerIn(body, 'top_logprobs', 0, MAX_TOP_LOGPROBS)
      return {
        ...readShared(body),
        prompt: {
          kind: 'chat',
          messages: readInput(body),
          tools,
          tool_choice: readToolChoice(body, tools, (choice) => choice.name),
          parallel_tool_calls: flagIn(body, 'parallel_tool_calls') ?? true,
        },
        max_tokens: integerIn(body, 'max_output_tokens', 1),
        n: 1,
        logprobs: top_logprobs || include.includes('message.output_text.logprobs') ? (top_logprobs ?? 0) : null,
        format: readFormat(recordIn(recordIn(body, 'text') ?? {}, 'format', 'text.format'), 'text.format'),
      }
    },

    whole: (head, ask, [answer]) => written(head, ask, answer!),
    events: (head: Head, ask: Ask, emit: Emit) =>
      responseEvents({
        ...{ head, emit },
        opening: written(head, ask, undefined),
        whole: (answer) => written(head, ask, answer),
        withLogprobs: ask.logprobs !== null,
      }),
    remember(head, ask, [answer]) {
      if (ask.body.store !== false) remembered.keep(head.id, inputItems(ask.body), outputItems(head, ask, answer!))
    },
    join: (events) => events.map(({ response }) => response).findLast(isJson),
  }
}

const inputItems = ({ input }: Json): readonly unknown[] =>
  typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : Array.isArray(input) ? input : []

function readTools(body: Json): Tool[] {
  return (listIn(body, 'tools', MAX_TOOLS) ?? []).map((tool, i) => {
    if (!isJson(tool) || tool.type !== 'function') throw wrong(`tools[${i}]`, 'a tool of type "function"', isJson(tool) ? tool.type : tool)
    return readTool(tool, `tools[${i}]`)
  })
}

function readInput(body: Json): ChatMessage[] {
  const instructions = textIn(body, 'instructions')
  const items = listIn(body, 'input', MAX_MESSAGES)
  if (!items || items.length === 0) throw invalid('input', `'input' must be text or a list of at least one item`)
  const messages: ChatMessage[] = instructions === undefined ? [] : [{ role: 'system', content: instructions }]
  for (const [i, item] of items.entries()) {
    if (!isJson(item)) throw wrong(`input[${i}]`, 'an object', item)
    add(messages, item, `input[${i}]`)
  }
  return messages
}

const ROLES: Readonly<Record<string, ChatMessage['role']>> = { system: 'system', developer: 'system', user: 'user', assistant: 'assistant' }

/** What a model said and did at once comes as several items, and is one message to it. */
function add(messages: ChatMessage[], item: Json, at: string): void {
  const type = item.type ?? 'message'
  if (type === 'reasoning') return
  if (type === 'message') {
    const role = typeof item.role === 'string' && Object.hasOwn(ROLES, item.role) ? ROLES[item.role]! : undefined
    if (!role) throw wrong(`${at}.role`, `one of ${Object.keys(ROLES).join(', ')}`, item.role)
    messages.push({ role, content: readContent(item.content, `${at}.content`) ?? '' })
  } else if (type === 'function_call') {
    const [id, name] = [textIn(item, 'call_id', `${at}.call_id`), textIn(item, 'name', `${at}.name`)]
    if (id === undefined || name === undefined) throw wrong(at, 'a call with "call_id" and "name"', item)
    const call: ToolCall = { id, name, arguments: textIn(item, 'arguments', `${at}.arguments`) ?? '' }
    const last = messages.at(-1)
    if (last?.role === 'assistant') messages[messages.length - 1] = { ...last, tool_calls: [...(last.tool_calls ?? []), call] }
    else messages.push({ role: 'assistant', content: '', tool_calls: [call] })
  } else if (type === 'function_call_output') {
    const tool_call_id = textIn(item, 'call_id', `${at}.call_id`)
    if (!messages.some(({ tool_calls = [] }) => tool_calls.some(({ id }) => id === tool_call_id)))
      throw invalid(`${at}.call_id`, `'${at}' answers a function call that no item before it makes`)
    messages.push({ role: 'tool', content: readContent(item.output, `${at}.output`) ?? '', tool_call_id: tool_call_id! })
  } else throw invalid(`${at}.type`, `'${at}' is of type ${JSON.stringify(type)}: this model does not read that`, 'unsupported_content')
}

/** The response as it begins, or as it ends with this answer. */
function written(head: Head, ask: Ask, answer: Answer | undefined): Json {
  const { body } = ask
  const cut = answer?.finish_reason === 'length'
  const [input_tokens, output_tokens] = [head.prompt_token_ids.length, answer?.tokens.length ?? 0]
  return {
    ...{ id: head.id, object: 'response', created_at: head.created, model: head.model },
    status: answer ? (cut ? 'incomplete' : 'completed') : 'in_progress',
    ...{ background: false, error: null, incomplete_details: cut ? { reason: 'max_output_tokens' } : null },
    instructions: body.instructions ?? null,
    max_output_tokens: ask.max_tokens ?? null,
    output: answer ? outputItems(head, ask, answer) : [],
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    reasoning: { effort: null, summary: null },
    store: body.store ?? true,
    temperature: ask.temperature ?? null,
    text: { format: { type: 'text' }, ...(isJson(body.text) && body.text) },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_p: ask.top_p ?? null,
    truncation: 'disabled',
    usage: answer
      ? {
          input_tokens,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: input_tokens + output_tokens,
        }
      : null,
    metadata: body.metadata ?? {},
  }
}

function outputItems(head: Head, ask: Ask, { text, tool_calls, finish_reason, tokens }: Answer): Json[] {
  const status = finish_reason === 'length' ? 'incomplete' : 'completed'
  const logprobs = ask.logprobs === null ? [] : tokens.map(logprobOf)
  const content = [{ type: 'output_text', text, annotations: [], logprobs }]
  return [
    ...(text !== '' || tool_calls.length === 0 ? [{ id: messageId(head), type: 'message', status, role: 'assistant', content }] : []),
    ...tool_calls.map((call, i) => ({ id: callItemId(head, i), type: 'function_call', status, ...functionCall(call) })),
  ]
}

const functionCall = ({ id, name, arguments: args }: ToolCall) => ({ call_id: id, name, arguments: args })
