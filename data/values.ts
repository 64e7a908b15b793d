// Attribute values as they really come: numbers as text, JSON in strings, Python in strings, bytes,
// cut off in the middle. Everything here takes what it gets and never throws.

import { parseJsonBytes } from './json_bytes.ts'
import { parsePythonLiteral } from './python_literal.ts'
import type { Attributes, Value } from './span.ts'

export type ValueRecord = { readonly [key: string]: Value }

/** What instrumentations write where they could not write what there was. */
const UNWRITTEN = new Set(['<not specified>', '<not serializable>'])
/** And where they had nothing to write. */
const PLACEHOLDERS = new Set(['', ...UNWRITTEN, 'N/A', '{}', 'unknown', 'None', 'null'])
/** What they write where they were told to hide it. The first is spelled so at its source. */
const REDACTED = new Set(['readacted', '__REDACTED__', '<REDACTED>'])
export const LONGEST_PLACEHOLDER = 32
/** What the processor `redaction` puts in the place of what it hides, which may be a word of a text. */
const MARK = /\[REDACTED(:[a-z]+)?\]/
export const MARK_BEGINS = '[REDACTED'
const HIDDEN = new RegExp(`^${MARK.source}$`)
/** Steps of a flat key that are followed; more are nobody's. */
const MAX_STEPS = 32
const CUT_MARK = /\.\.\.\s?\[TRUNCATED[^\]]*\]\s*$/i

export const redactedMark = (hash = ''): string => (hash === '' ? '[REDACTED]' : `[REDACTED:${hash}]`)

/** Asked of every text: only short ones are looked up, since a look-up hashes all of them. */
export const isRedacted = (text: string): boolean =>
  (text.length <= LONGEST_PLACEHOLDER && REDACTED.has(text.trim())) || (text.includes(MARK_BEGINS) && MARK.test(text))

export const isUnwritten = (text: string): boolean => text.length <= LONGEST_PLACEHOLDER && UNWRITTEN.has(text.trim())

/** Nothing is left of what there was: it was hidden as a whole, or could not be written. */
export const isConcealed = (text: string): boolean =>
  text.length <= LONGEST_PLACEHOLDER && (isUnwritten(text) || REDACTED.has(text.trim()) || HIDDEN.test(text.trim()))

/** Whether a length limit that leaves a mark cut the text. */
export const isCut = (text: string): boolean => mayBe(text.charCodeAt(text.length - 1), BRACKET_END) && CUT_MARK.test(text.slice(-80))

/** Text that says something: no placeholder, and an id even where it was sent as a number. */
export function textOf(value: Value | undefined): string | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString()
  return typeof value === 'string' && !PLACEHOLDERS.has(value) ? value : undefined
}

/** A finite number, also from text. */
export function numberOf(value: Value | undefined): number | undefined {
  if (typeof value !== 'number' && typeof value !== 'bigint' && (typeof value !== 'string' || value.trim() === '')) return undefined
  const number = Number(value)
  return Number.isFinite(number) ? number : undefined
}

export function numbersOf(value: Value | undefined): number[] {
  return listOf(decode(value).value)
    .map(numberOf)
    .filter((n) => n !== undefined)
}

export const listOf = (value: Value | undefined): readonly Value[] => (Array.isArray(value) ? value : [])

export const recordOf = (value: Value | undefined): ValueRecord | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
    ? (value as ValueRecord)
    : undefined

/** Text, or the JSON of anything else; absent stays absent, and what is nested deeper than the stack is as good as absent. */
export function jsonOf(value: Value | undefined): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value).toString()
  try {
    return JSON.stringify(value, (_key, part: unknown) => (typeof part === 'bigint' ? String(part) : inText(part)))
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Texts in bytes, where no string was made of them. */
const inText = (part: unknown): unknown => (part instanceof Uint8Array ? Buffer.from(part).toString() : part)

export interface Decoded {
  readonly value: Value | undefined
  /** It began like JSON and was neither JSON nor a Python literal: cut by a length limit, which leaves no other mark. */
  readonly truncated: boolean
}

/** JSON or Python in text becomes the value it describes; any other text stays text. */
export function decode(value: Value | undefined): Decoded {
  const text = value instanceof Uint8Array ? Buffer.from(value).toString() : value
  if (typeof text !== 'string') return text === undefined ? NOTHING : { value: text, truncated: false }
  if (isCut(text)) return { value: undefined, truncated: true }
  if (!mayBe(text.charCodeAt(0), BRACKET, BRACE) || !/^\s*[[{]/.test(text) || HIDDEN.test(text)) return { value: text, truncated: false }
  const parsed = parseJson(text) ?? parsePythonLiteral(text)
  return parsed === undefined ? { value: undefined, truncated: true } : { value: parsed, truncated: false }
}

const NOTHING: Decoded = { value: undefined, truncated: false }

/** Whether a text that begins or ends so may do so with one of these, blanks aside. Most texts are told by it. */
const mayBe = (code: number, one: number, other = one): boolean => code === one || code === other || code <= SPACE || code >= 0x80

/** The same of messages, whose long texts may be in bytes. A placeholder in their place is none. */
export function decodeMessages(value: Value | undefined): Decoded {
  if (typeof value === 'string' && PLACEHOLDERS.has(value)) return { value: undefined, truncated: false }
  const parsed = value instanceof Uint8Array && !mayBeCut(value) ? parseJsonBytes(value) : undefined
  return parsed === undefined ? decode(value) : { value: parsed, truncated: false }
}

/** Whether it may end with a mark, which is in brackets and has none within. Most lists end with more than one. */
function mayBeCut(json: Uint8Array): boolean {
  let at = json.length - 1
  while (json[at]! <= SPACE) at--
  if (json[at] !== BRACKET_END) return false
  const furthest = at - LONGEST_MARK
  for (at--; at > furthest && json[at] !== BRACKET_END; at--) if (json[at] === BRACKET) return true
  return false
}

const BRACKET = '['.charCodeAt(0)
const BRACE = '{'.charCodeAt(0)
const BRACKET_END = ']'.charCodeAt(0)
const SPACE = ' '.charCodeAt(0)
/** decode() looks at so many characters. */
const LONGEST_MARK = 80 * 3

function parseJson(text: string): Value | undefined {
  try {
    return JSON.parse(text) as Value
  } catch {
    return undefined
  }
}

/** The first of several keys that says something. */
export function first(attributes: Attributes, keys: readonly string[]): Value | undefined {
  for (const key of keys) {
    const value = attributes[key]
    if (value !== undefined && value !== null && value !== '') return value
  }
  return undefined
}

/**
 * Attributes written flat, `prefix.0.message.role`, as the objects they describe. Indices may be
 * sparse and in any order: items come out sorted, without gaps.
 */
export function unflatten(attributes: Attributes, prefix: string): Value | undefined {
  let root: Tree | undefined
  for (const key in attributes) {
    if (!key.startsWith(prefix) || key.charCodeAt(prefix.length) !== DOT) continue
    root ??= new Map()
    let at = root
    let from = prefix.length + 1
    let steps = 1
    for (let to = key.indexOf('.', from); to >= 0 && steps < MAX_STEPS; to = key.indexOf('.', from)) {
      at = below(at, key.slice(from, to))
      from = to + 1
      steps++
    }
    const rest = key.indexOf('.', from)
    const last = rest < 0 ? key.slice(from) : key.slice(from, rest)
    if (!(at.get(last) instanceof Map)) at.set(last, attributes[key]!)
  }
  return root && toValue(root)
}

const DOT = '.'.charCodeAt(0)

type Tree = Map<string, Tree | Value>

function below(tree: Tree, step: string): Tree {
  const found = tree.get(step)
  if (found instanceof Map) return found
  const made: Tree = new Map()
  tree.set(step, made)
  return made
}

function toValue(tree: Tree): Value {
  if (isList(tree)) {
    const indices = [...tree.keys()].sort((a, b) => Number(a) - Number(b))
    return indices.map((index) => valueAt(tree, index))
  }
  const record: Record<string, Value> = {}
  for (const key of tree.keys()) setOwn(record, key, valueAt(tree, key))
  return record
}

function isList(tree: Tree): boolean {
  for (const key of tree.keys()) if (!/^\d+$/.test(key)) return false
  return true
}

function valueAt(tree: Tree, key: string): Value {
  const value = tree.get(key)!
  return value instanceof Map ? toValue(value) : value
}

/** A key may well be called `__proto__`: then it is to be a key like others. */
function setOwn(record: Record<string, Value>, key: string, value: Value): void {
  if (key === '__proto__') Object.defineProperty(record, key, { value, enumerable: true, configurable: true, writable: true })
  else record[key] = value
}

/** Where the session or conversation is written, by whoever writes it. */
export const SESSION_KEYS = [
  'gen_ai.conversation.id',
  'session.id',
  'langfuse.session.id',
  'gcp.vertex.agent.session_id',
  'traceloop.association.properties.session_id',
  'traceloop.association.properties.thread_id',
  'langsmith.metadata.session_id',
  'langsmith.metadata.thread_id',
  'conversation.id',
  'mlflow.trace.session',
]

export const sessionOf = (attributes: Attributes): string | undefined => textOf(first(attributes, SESSION_KEYS))

/** `whole`, and from `other` what it lacks: what is undefined, '' or an empty list. */
export function fillGaps<T extends object>(whole: T, other: Partial<T>): T {
  const filled = { ...whole } as Record<string, unknown>
  for (const [key, value] of Object.entries(other)) if (isGap(filled[key])) filled[key] = value
  return filled as T
}

export const isGap = (value: unknown): boolean => value === undefined || value === '' || (Array.isArray(value) && value.length === 0)
