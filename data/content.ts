// What a message holds, in every shape in which it is written: GenAI parts, OpenAI's, Anthropic's, Bedrock's and Gemini's blocks, plain text, and
// any of these as JSON.

import type { Part } from './dialect.ts'
import { heldText } from './held_text.ts'
import { LONG } from './json_bytes.ts'
import type { Value } from './span.ts'
import { decode, isUnwritten, jsonOf, recordOf, textOf, type ValueRecord } from './values.ts'

/** Content: text, one block, a list of blocks, or any of these as JSON. */
export function readParts(value: Value | undefined): Part[] {
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

export function readPart(value: Value, type?: string): Part[] {
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
      return [returnedBy(block)]
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
  if (returned) return [returnedBy(returned)]
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

export function readReasoning(value: Value | undefined): Part[] {
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

function returnedBy(block: ValueRecord): Part {
  const output = recordOf(block.output)
  // The Vercel AI SDK says in the output's type that it is an error.
  const vercel = output && typeof output.type === 'string' && 'value' in output ? output : undefined
  return toolResult({
    id: block.tool_use_id ?? block.toolUseId ?? block.toolCallId ?? block.call_id ?? block.id,
    name: block.name ?? block.toolName,
    content: vercel ? vercel.value : (block.response ?? block.result ?? block.content ?? block.output),
    failed: block.is_error === true || block.isError === true || block.status === 'error' || /^error-/.test(String(vercel?.type)),
  })
}

export function toolResult(given: { id: Value | undefined; name: Value | undefined; content: Value | undefined; failed: boolean }): Part {
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

/** What is read of each value; most lists have one, and one list is enough for it. */
export function allOf<T>(values: readonly Value[], read: (value: Value) => T[]): T[] {
  return values.length === 1 ? read(values[0]!) : values.flatMap((value) => read(value))
}
