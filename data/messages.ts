// One reader for every shape in which a conversation is written: GenAI parts, OpenAI chat and
// Responses, Anthropic and Bedrock blocks, LangChain messages, the Vercel AI SDK. Frameworks mix them
// freely under the same keys, so the shape of each object decides, never its origin.

import type { Message, Part } from './dialect.ts'
import { heldText } from './held_text.ts'
import { LONG } from './json_bytes.ts'
import type { Value } from './span.ts'
import { decode, isUnwritten, jsonOf, listOf, recordOf, textOf, type ValueRecord } from './values.ts'

type Role = Message['role']

const ROLES: Readonly<Record<string, Role>> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  human: 'user',
  assistant: 'assistant',
  ai: 'assistant',
  model: 'assistant',
  tool: 'tool',
  function: 'tool',
}

/** A list of messages, one message, or plain text as the user's. Lists within the list (LangChain batches) are joined. */
export function readMessages(value: Value | undefined): Message[] {
  if (typeof value === 'string') return value === '' || isUnwritten(value) ? [] : [{ role: 'user', parts: [{ kind: 'text', text: value }] }]
  if (!Array.isArray(value)) return readMessage(value)
  if (isTuple(value)) return readMessage({ role: value[0]!, content: value[1]! })
  return allOf(value, readMessages)
}

/** What is read of each value; most lists have one, and one list is enough for it. */
function allOf<T>(values: readonly Value[], read: (value: Value) => T[]): T[] {
  return values.length === 1 ? read(values[0]!) : values.flatMap((value) => read(value))
}

/** LangChain's `["user", "text"]`. */
const isTuple = (list: readonly Value[]) => list.length === 2 && typeof list[0] === 'string' && Object.hasOwn(ROLES, list[0])

/**
 * One message. Tool results become messages of role `tool`, one each, whatever the framework calls
 * them; a message without any content is left out unless it says which call it answers.
 */
export function readMessage(value: Value | undefined, fallback: Role = 'user'): Message[] {
  const outer = recordOf(value)
  if (!outer) return typeof value === 'string' && value !== '' ? [{ role: fallback, parts: [{ kind: 'text', text: value }] }] : []
  const message = unwrap(outer)
  const role = roleOf(message, fallback)
  const name = textOf(message.name)
  const parts = role === 'tool' ? toolMessageParts(message) : partsOf(message)
  return splitResults(role, parts, name)
}

/** Every part that the messages hold, as one assistant message: some providers write one message per part. */
export function joinMessages(messages: readonly Message[]): Message | undefined {
  if (messages.length === 0) return undefined
  return { role: 'assistant', parts: messages.length === 1 ? messages[0]!.parts : messages.flatMap(({ parts }) => parts) }
}

/** Puts system instructions, which some keep apart, in front of the messages. */
export function withSystem(instructions: Value | undefined, messages: readonly Message[]): readonly Message[] {
  const given = recordOf(instructions) ? partsOf(recordOf(instructions)!) : readParts(instructions)
  if (given.length === 0 || messages[0]?.role === 'system') return messages
  return [{ role: 'system', parts: given }, ...messages]
}

export const textIn = (message: Message | undefined): string =>
  (message?.parts ?? []).map((part) => (part.kind === 'text' ? part.text : '')).join('')

export type ToolCall = Extract<Part, { kind: 'tool_call' }>
export type ToolResult = Extract<Part, { kind: 'tool_result' }>

export const toolCallsIn = (message: Message | undefined): ToolCall[] => (message?.parts ?? []).filter((part) => part.kind === 'tool_call')
export const toolResultsIn = (message: Message | undefined): ToolResult[] =>
  (message?.parts ?? []).filter((part) => part.kind === 'tool_result')

export const asksTools = (message: Message | undefined): boolean => message?.parts.some(({ kind }) => kind === 'tool_call') ?? false

/** The wrappers of OpenInference's flat keys and of LangChain's serialisers. */
function unwrap(outer: ValueRecord): ValueRecord {
  const inner = recordOf(outer.message) ?? (outer.lc !== undefined ? recordOf(outer.kwargs) : recordOf(outer.data))
  if (!inner) return outer
  return outer.message ? inner : { type: langChainType(outer), ...inner }
}

/** `HumanMessage` of `["langchain_core", "messages", "HumanMessage"]`, or the type beside `data`. */
function langChainType(outer: ValueRecord): Value {
  const last = listOf(outer.id).at(-1)
  return typeof last === 'string' ? last.replace(/Message(Chunk)?$/, '').toLowerCase() : (outer.type ?? null)
}

function roleOf(message: ValueRecord, fallback: Role): Role {
  if (typeof message.role === 'string') return ROLES[message.role] ?? fallback
  switch (message.type) {
    case 'function_call':
    case 'reasoning':
      return 'assistant'
    case 'function_call_output':
    case 'function_call_result':
      return 'tool'
  }
  if (typeof message.type === 'string' && ROLES[message.type]) return ROLES[message.type]!
  return message.tool_calls ? 'assistant' : fallback
}

function partsOf(message: ValueRecord): Part[] {
  if (message.type === 'function_call' || message.type === 'reasoning') return readPart(message)
  const content = message.parts ?? message.contents ?? message.content
  const reasoning = readReasoning(message.reasoning_content)
  const parts = reasoning.length === 0 ? readParts(content) : [...reasoning, ...readParts(content)]
  // OpenInference writes the text twice where it also lists the blocks.
  if (message.contents && !parts.some((part) => part.kind === 'text')) parts.push(...readParts(message.content))
  const calls = toolCallValues(message)
  if (calls.length === 0) return parts
  const asked = new Set(parts.map((part) => (part.kind === 'tool_call' ? part.id : undefined)))
  for (const call of calls) {
    for (const part of readPart(call, 'tool_call'))
      if (part.kind !== 'tool_call' || part.id === undefined || !asked.has(part.id)) parts.push(part)
  }
  return parts
}

/** LangChain keeps the provider's tool calls beside its own, which are the parsed ones. */
function toolCallValues(message: ValueRecord): readonly Value[] {
  const own = listOf(message.tool_calls)
  if (own.length > 0) return own
  if (recordOf(message.function_call)) return [message.function_call!]
  return listOf(recordOf(message.additional_kwargs)?.tool_calls)
}

/** A tool's message: its content is the result, unless its parts say so themselves. */
function toolMessageParts(message: ValueRecord): Part[] {
  const parts = readParts(message.parts ?? message.contents ?? message.content)
  if (parts.some((part) => part.kind === 'tool_result' || part.kind === 'tool_call')) return parts
  return [
    result({
      id: message.tool_call_id ?? message.call_id ?? message.callId ?? message.id,
      name: message.name,
      content: message.contents ?? message.parts ?? message.content ?? message.output,
      failed: message.status === 'error',
    }),
  ]
}

function splitResults(role: Role, parts: readonly Part[], name: string | undefined): Message[] {
  if (parts.length > 0 && !parts.some(isResult)) return [{ role, parts, ...(name ? { name } : {}) }]
  const messages: Message[] = []
  const said = parts.filter((part) => part.kind !== 'tool_result' || part.text !== '' || part.id !== undefined)
  const rest = said.filter((part) => part.kind !== 'tool_result')
  for (const part of said)
    if (part.kind === 'tool_result') messages.push({ role: 'tool', parts: [part], ...(name && role === 'tool' ? { name } : {}) })
  if (rest.length > 0) messages.push({ role, parts: rest, ...(name ? { name } : {}) })
  return messages
}

const isResult = ({ kind }: Part) => kind === 'tool_result'

/** Content: text, one block, a list of blocks, or any of these as JSON. */
function readParts(value: Value | undefined): Part[] {
  if (value === undefined || value === null || value === '') return []
  if (value instanceof Uint8Array) return mayBeBlocks(value) ? readParts(jsonOf(value)) : readText(value)
  if (typeof value === 'string') {
    const { value: decoded } = decode(value)
    return isBlocks(decoded) ? readParts(decoded) : [{ kind: 'text', text: value }]
  }
  if (Array.isArray(value)) return allOf(value, readPart)
  return readPart(value)
}

/** Text that may be JSON begins so: one of the two, with blanks before it. */
const mayBeBlocks = (text: Uint8Array): boolean => text[0]! <= 0x20 || text[0] === 0x5b || text[0] === 0x7b || text[0]! >= 0x80

/** A JSON list is content only where it is made of content blocks: a user may well write a list. */
const isBlocks = (value: Value | undefined): value is readonly Value[] =>
  Array.isArray(value) && value.length > 0 && value.every((block: Value) => BLOCK_KEYS.some((key) => key in (recordOf(block) ?? {})))

const BLOCK_KEYS = [
  'type',
  'text',
  'toolUse',
  'toolResult',
  'functionCall',
  'function_call',
  'functionResponse',
  'function_response',
  'json',
  'image',
  'document',
  'reasoningContent',
  'cachePoint',
  'message_content',
]

function readPart(value: Value, type?: string): Part[] {
  if (typeof value === 'string') return value === '' || isUnwritten(value) ? [] : [{ kind: 'text', text: value }]
  const outer = recordOf(value)
  if (!outer) return value === null ? [] : [{ kind: 'text', text: jsonOf(value)! }]
  const block = recordOf(outer.message_content) ?? recordOf(outer.tool_call) ?? outer
  switch (type ?? block.type) {
    case 'text':
    case 'input_text':
    case 'output_text':
    case 'refusal':
      return readText(block.content ?? block.text ?? block.refusal)
    case 'reasoning':
    case 'thinking':
      return readReasoning(block.content ?? block.text ?? block.thinking ?? block.summary)
    case 'tool_call':
    case 'tool_use':
    case 'tool-call':
    case 'toolUse':
    case 'function_call':
    case 'function':
      return [toolCall(block)]
    case 'tool_call_response':
    case 'tool_result':
    case 'tool-result':
    case 'toolResult':
      return [toolResult(block)]
    case undefined:
    case null:
      return readUntyped(block)
  }
  return isMedia(block) ? [media(block)] : [{ kind: 'text', text: jsonOf(block)! }]
}

/** The blocks of Bedrock and Gemini carry no type: their one key is it. */
function readUntyped(block: ValueRecord): Part[] {
  const use = recordOf(block.toolUse ?? block.functionCall ?? block.function_call)
  if (use) return [toolCall(use)]
  const returned = recordOf(block.toolResult ?? block.functionResponse ?? block.function_response)
  if (returned) return [toolResult(returned)]
  if (block.thought === true) return readReasoning(block.text)
  const thought = recordOf(block.reasoningContent)
  if (thought) return readReasoning(recordOf(thought.reasoningText)?.text)
  if (block.text !== undefined) return readText(block.text)
  if (block.json !== undefined) return readText(jsonOf(block.json))
  if (block.cachePoint !== undefined || Object.keys(block).length === 0) return []
  if (block.name !== undefined && (block.arguments !== undefined || block.args !== undefined)) return [toolCall(block)]
  return isMedia(block) ? [media(block)] : [{ kind: 'text', text: jsonOf(block)! }]
}

function readText(value: Value | undefined): Part[] {
  if (value instanceof Uint8Array && value.length >= LONG) return [heldText(value)]
  const text = jsonOf(value)
  return text ? [{ kind: 'text', text }] : []
}

function readReasoning(value: Value | undefined): Part[] {
  const text = Array.isArray(value) ? value.map((part: Value) => textOf(recordOf(part)?.text) ?? '').join('\n') : jsonOf(value)
  return text ? [{ kind: 'reasoning', text }] : []
}

function toolCall(block: ValueRecord): Part {
  const inner = recordOf(block.function) ?? block
  const id = textOf(block.call_id ?? block.callId ?? block.toolCallId ?? block.toolUseId ?? block.id)
  return {
    kind: 'tool_call',
    ...(id === undefined ? {} : { id }),
    name: textOf(inner.name ?? inner.toolName) ?? '',
    arguments: jsonOf(inner.arguments ?? inner.args ?? inner.input) ?? '',
  }
}

function toolResult(block: ValueRecord): Part {
  const output = recordOf(block.output)
  // The Vercel AI SDK says in the output's type that it is an error.
  const vercel = output && typeof output.type === 'string' && 'value' in output ? output : undefined
  return result({
    id: block.tool_use_id ?? block.toolUseId ?? block.toolCallId ?? block.call_id ?? block.id,
    name: block.name ?? block.toolName,
    content: vercel ? vercel.value : (block.response ?? block.result ?? block.content ?? block.output),
    failed: block.is_error === true || block.isError === true || block.status === 'error' || /^error-/.test(String(vercel?.type)),
  })
}

function result(given: { id: Value | undefined; name: Value | undefined; content: Value | undefined; failed: boolean }): Part {
  const id = textOf(given.id)
  const name = textOf(given.name)
  return {
    kind: 'tool_result',
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    text: resultText(given.content),
    ...(given.failed ? { is_error: true } : {}),
  }
}

/** The text that the model was shown: blocks give their text, anything else its JSON. */
function resultText(content: Value | undefined): string {
  const one = recordOf(content)
  const blocks = one && (one.type === 'text' || one.type === 'output_text') ? [one] : content
  if (typeof blocks !== 'string' && isBlocks(blocks)) {
    const parts = readParts(blocks)
    if (parts.every((part) => part.kind === 'text')) return parts.map((part) => part.text).join('\n')
  }
  return jsonOf(content) ?? ''
}

const isMedia = (block: ValueRecord): boolean =>
  /image|audio|video|file|blob|uri|document|media|inline/.test(String(block.type ?? Object.keys(block)[0])) || block.mime_type !== undefined

function media(block: ValueRecord): Part {
  const inner = recordOf(block[String(block.type)]) ?? recordOf(Object.values(block)[0]) ?? block
  const mime = textOf(block.mime_type ?? block.mediaType ?? inner.mime_type ?? inner.media_type ?? block.modality)
  const reference = textOf(block.uri ?? block.file_id ?? block.url ?? inner.url ?? inner.uri ?? inner.file_id ?? recordOf(inner.image)?.url)
  return { kind: 'media', ...(mime === undefined ? {} : { mime }), ...(reference === undefined ? {} : { reference }) }
}
