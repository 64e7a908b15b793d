// Reads what Python's repr() prints: 'single quotes', None, True, tuples, and objects such as
// Name(key='value'), which some instrumentations put where JSON belongs.

import type { Value } from './span.ts'

/** Deeper values are not read: nobody writes them, and the reader is recursive. */
const MAX_DEPTH = 200

/** @returns the value (an object `Name(a=1)` as {a: 1}), or undefined when `text` is no Python literal. */
export function parsePythonLiteral(text: string): Value | undefined {
  const reader: Reader = { text, at: 0, depth: 0 }
  try {
    const value = readValue(reader)
    skipSpace(reader)
    return reader.at === text.length ? value : undefined
  } catch (error) {
    if (error instanceof NotALiteral) return undefined
    throw error
  }
}

class NotALiteral extends Error {}

interface Reader {
  readonly text: string
  at: number
  depth: number
}

const WORDS: Readonly<Record<string, Value>> = { None: null, True: true, False: false, null: null, true: true, false: false, nan: NaN }
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', a: '\x07', v: '\v', '0': '\0', '\n': '' }

function readValue(r: Reader): Value {
  if (++r.depth > MAX_DEPTH) throw new NotALiteral()
  const value = readAny(r)
  r.depth--
  return value
}

function readAny(r: Reader): Value {
  skipSpace(r)
  const c = r.text[r.at]
  if (c === '{') return readBraces(r)
  if (c === '[') return readSequence(r, ']')
  if (c === '(') return readSequence(r, ')')
  if (c === "'" || c === '"') return readString(r, false)
  const number = match(r, /[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?/y)
  if (number) return Number(number.replaceAll('_', ''))
  return readWord(r)
}

/** None, True, a prefixed string such as b'…', or an object Name(…). */
function readWord(r: Reader): Value {
  const word = match(r, /[A-Za-z_][\w.]*/y)
  if (!word) throw new NotALiteral()
  const c = r.text[r.at]
  if (/^[bruBRU]{1,2}$/.test(word) && (c === "'" || c === '"')) return readString(r, /r/i.test(word))
  if (c === '(') return readArguments(r)
  if (Object.hasOwn(WORDS, word)) return WORDS[word]!
  throw new NotALiteral()
}

/** A dict, or a set, which becomes a list. */
function readBraces(r: Reader): Value {
  const dict: Record<string, Value> = Object.create(null)
  const set: Value[] = []
  for (const end of items(r, '}')) {
    if (end) break
    const key = readValue(r)
    skipSpace(r)
    if (r.text[r.at] === ':') {
      r.at++
      dict[String(key)] = readValue(r)
    } else set.push(key)
  }
  return set.length > 0 ? set : dict
}

function readSequence(r: Reader, close: string): Value {
  const list: Value[] = []
  for (const end of items(r, close)) {
    if (end) break
    list.push(readValue(r))
  }
  return list
}

/** `(key=value, …)`; positional arguments are dropped. */
function readArguments(r: Reader): Value {
  const record: Record<string, Value> = Object.create(null)
  for (const end of items(r, ')')) {
    if (end) break
    const key = match(r, /[A-Za-z_]\w*(?==[^=])/y)
    if (key) r.at++
    const value = readValue(r)
    if (key) record[key] = value
  }
  return record
}

/** Steps through a bracketed list: yields false before each item and true at its end. */
function* items(r: Reader, close: string): Generator<boolean> {
  r.at++
  for (;;) {
    skipSpace(r)
    if (r.text[r.at] === close) break
    yield false
    skipSpace(r)
    if (r.text[r.at] === ',') r.at++
    else if (r.text[r.at] !== close) throw new NotALiteral()
  }
  r.at++
  yield true
}

function readString(r: Reader, raw: boolean): string {
  const quote = r.text[r.at++]!
  let value = ''
  for (;;) {
    const c = r.text[r.at++]
    if (c === undefined) throw new NotALiteral()
    if (c === quote) return value
    value += c === '\\' && !raw ? readEscape(r) : c
  }
}

function readEscape(r: Reader): string {
  const hex = match(r, /x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}/y)
  if (hex) {
    const code = parseInt(hex.slice(1), 16)
    if (code > 0x10ffff) throw new NotALiteral()
    return String.fromCodePoint(code)
  }
  const c = r.text[r.at++]
  if (c === undefined) throw new NotALiteral()
  return ESCAPES[c] ?? c
}

function match(r: Reader, pattern: RegExp): string | undefined {
  pattern.lastIndex = r.at
  const found = pattern.exec(r.text)?.[0]
  if (found !== undefined) r.at += found.length
  return found
}

function skipSpace(r: Reader): void {
  match(r, /\s*/y)
}
