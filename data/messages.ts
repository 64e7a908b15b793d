// One reader for every shape in which a conversation is written: GenAI, OpenAI chat and Responses, LangChain messages, the Vercel AI SDK.
// Frameworks mix them freely under the same keys, so the shape of each object decides, never its origin. What a message holds: content.ts.

import { allOf, readPart, readParts, readReasoning, toolResult } from './content.ts'
import type { Message, Part } from './dialect.ts'
import type { Value } from './span.ts'
import { isUnwritten, listOf, recordOf, textOf, type ValueRecord } from './values.ts'

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
    toolResult({
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
