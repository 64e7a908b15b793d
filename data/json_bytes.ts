// JSON read from its UTF-8 bytes, for the messages of model calls: most of them is long texts, and none of those becomes a string. What is
// not plainly JSON is left to JSON.parse, and to whatever is tried after it.

import { isUtf8 } from 'node:buffer'

import { knownBytes } from './known_texts.ts'
import type { Value } from './span.ts'

/** A text of at least so many bytes stays in bytes, where texts stand. */
export const LONG = 256
/** Under which keys they do. */
const TEXT_KEYS = new Set(['content', 'text'])
/** Longer JSON is not read here, nor what is nested deeper. */
const LONGEST = 1 << 20
const DEEPEST = 64

/**
 * What JSON.parse gives, save that a long text under a key where texts stand is its UTF-8 bytes, which may be a part of those given.
 * Undefined where the bytes are no list and no object, or cannot be read here.
 */
export function parseJsonBytes(json: Uint8Array): Value | undefined {
  if (json.length > LONGEST || !isUtf8(json)) return undefined
  bytes = asBuffer(json)
  pos = 0
  try {
    skipBlanks()
    if (bytes[pos] !== BRACE && bytes[pos] !== BRACKET) return undefined
    const value = readValue(0, false)
    skipBlanks()
    return pos === bytes.length ? value : undefined
  } catch {
    return undefined
  } finally {
    bytes = NOTHING
  }
}

/** Nearly all are. */
export const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

// Where reading stands: one call at a time.
const NOTHING: Buffer = Buffer.alloc(0)
let bytes = NOTHING
let pos = 0

/** Made once: how a text is not JSON is told by whoever reads it next. */
const NOT_READ = new Error('not read')

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BRACKET = 0x5b
const BACKSLASH = 0x5c
const BRACKET_END = 0x5d
const BRACE = 0x7b
const BRACE_END = 0x7d

function readValue(depth: number, isText: boolean): Value {
  if (depth > DEEPEST) throw NOT_READ
  skipBlanks()
  const byte = bytes[pos]
  if (byte === QUOTE) return readString(isText)
  if (byte === BRACE) return readObject(depth)
  return byte === BRACKET ? readList(depth) : readScalar()
}

function readObject(depth: number): Value {
  const record: Record<string, Value> = {}
  pos++
  skipBlanks()
  if (bytes[pos] === BRACE_END) return end(record)
  for (;;) {
    skipBlanks()
    if (bytes[pos] !== QUOTE) throw NOT_READ
    const key = readString(false) as string
    // For JSON.parse it is a key like any other.
    if (key === '__proto__') throw NOT_READ
    skipBlanks()
    expect(COLON)
    record[key] = readValue(depth + 1, TEXT_KEYS.has(key))
    skipBlanks()
    if (bytes[pos] === BRACE_END) return end(record)
    expect(COMMA)
  }
}

function readList(depth: number): Value {
  const list: Value[] = []
  pos++
  skipBlanks()
  if (bytes[pos] === BRACKET_END) return end(list)
  for (;;) {
    list.push(readValue(depth + 1, false))
    skipBlanks()
    if (bytes[pos] === BRACKET_END) return end(list)
    expect(COMMA)
  }
}

function end<T>(value: T): T {
  pos++
  return value
}

function expect(byte: number): void {
  if (bytes[pos++] !== byte) throw NOT_READ
}

function skipBlanks(): void {
  let byte = bytes[pos]
  while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++pos]
}

/** A number, true, false or null. */
function readScalar(): Value {
  const start = pos
  while (isOfScalar(bytes[pos])) pos++
  return JSON.parse(bytes.toString('latin1', start, pos)) as Value
}

const isOfScalar = (byte: number | undefined): boolean =>
  byte !== undefined &&
  ((byte >= 0x30 && byte <= 0x39) || (byte >= 0x61 && byte <= 0x7a) || byte === 0x2d || byte === 0x2e || byte === 0x2b || byte === 0x45)

const knownText = knownBytes(24)

/** From its quote on. */
function readString(isText: boolean): string | Uint8Array {
  const start = pos + 1
  pos = afterPlain(start)
  if (bytes[pos] === BACKSLASH) return readEscaped(start, isText)
  const stop = pos
  expect(QUOTE)
  return isText && stop - start >= LONG ? bytes.subarray(start, stop) : knownText(bytes, start, stop)
}

/** 1 for a quote, a backslash, and whatever is none of a string. */
const STOPS = Uint8Array.from({ length: 256 }, (_, byte) => (byte === QUOTE || byte === BACKSLASH || byte < 0x20 ? 1 : 0))

/** Where the next of those is. Four at a time: most of what is read here are the bytes of long texts. */
function afterPlain(from: number): number {
  const all = bytes
  const last = all.length
  let i = from
  while (i + 4 <= last && (STOPS[all[i]!]! | STOPS[all[i + 1]!]! | STOPS[all[i + 2]!]! | STOPS[all[i + 3]!]!) === 0) i += 4
  while (i < last && STOPS[all[i]!] === 0) i++
  return i
}

/** No escape is shorter than what it stands for. */
const unescaped = Buffer.allocUnsafeSlow(LONGEST)

function readEscaped(start: number, isText: boolean): string | Uint8Array {
  let from = start
  let length = 0
  while (bytes[pos] === BACKSLASH) {
    length = put(from, length)
    length = readEscape(length)
    from = pos
    pos = afterPlain(from)
  }
  length = put(from, length)
  expect(QUOTE)
  return isText && length >= LONG ? new Uint8Array(unescaped.subarray(0, length)) : unescaped.toString('utf8', 0, length)
}

/** What stands from there to `pos`; most of them are a line. */
function put(from: number, to: number): number {
  for (let i = from; i < pos; i++) unescaped[to++] = bytes[i]!
  return to
}

/** By what follows the backslash. */
const ESCAPES: Readonly<Record<number, number>> = { 0x22: 0x22, 0x5c: 0x5c, 0x2f: 0x2f, 0x62: 8, 0x66: 12, 0x6e: 10, 0x72: 13, 0x74: 9 }
const U = 0x75

function readEscape(to: number): number {
  const kind = bytes[pos + 1]!
  pos += 2
  if (kind !== U) {
    const byte = ESCAPES[kind]
    if (byte === undefined) throw NOT_READ
    unescaped[to] = byte
    return to + 1
  }
  return to + unescaped.write(String.fromCodePoint(readCodePoint()), to)
}

function readCodePoint(): number {
  const unit = readHex()
  if (unit < 0xd800 || unit > 0xdfff) return unit
  // Half of a pair is no UTF-8.
  if (unit > 0xdbff || bytes[pos] !== BACKSLASH || bytes[pos + 1] !== U) throw NOT_READ
  pos += 2
  const low = readHex()
  if (low < 0xdc00 || low > 0xdfff) throw NOT_READ
  return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
}

function readHex(): number {
  const digits = bytes.toString('latin1', pos, pos + 4)
  if (!/^[\da-f]{4}$/i.test(digits)) throw NOT_READ
  pos += 4
  return Number.parseInt(digits, 16)
}
