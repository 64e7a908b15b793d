import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { LONG, parseJsonBytes } from './json_bytes.ts'
import type { Value } from './span.ts'

const random = seeded(7)
const pick = <T>(from: readonly T[]): T => from[random(from.length)]!
const PIECES = ['a', 'é', '東', '\u{1d11e}', '"', '\\', '/', '\n', '\t', '\u0000', '\u007f', '[', '{', ' ']
const textOf = (most: number): string => Array.from({ length: random(most) }, () => pick(PIECES)).join('')
const KEYS = ['content', 'text', 'role', 'type', '0', 'constructor', 'clé']

function valueOf(depth: number): unknown {
  switch (random(depth > 4 ? 5 : 8)) {
    case 0:
      return pick([0, -0, 1, -17, 1.5, 1e21, -2.5e-7, 2 ** 60, true, false, null])
    case 5:
      return Array.from({ length: random(4) }, () => valueOf(depth + 1))
    case 6:
    case 7:
      return Object.fromEntries(Array.from({ length: random(5) }, () => [pick(KEYS), valueOf(depth + 1)]))
    default:
      return textOf(pick([3, 30, 600]))
  }
}

/** JSON as various writers write it: with blanks, with more escapes than it needs, with fewer. */
function written(value: unknown): string {
  const json = JSON.stringify(value, null, pick([undefined, 1, '\t']))
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return random(2) === 0
    ? json
    : json.replace(/[\u0080-\uffff]/g, (c) => (random(3) > 0 || c >= '\ud800' ? escaped(c) : c)).replaceAll('/', '\\/')
}

/** What was left in bytes, as text; and that it is long and stands where texts do. */
function inText(value: Value, key = ''): unknown {
  if (value instanceof Uint8Array) {
    expect(['content', 'text']).toContain(key)
    expect(value.length).toBeGreaterThanOrEqual(LONG)
    return Buffer.from(value).toString()
  }
  if (Array.isArray(value)) return value.map((item: Value) => inText(item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, inText(part as Value, name)]))
}

/** In memory where other things stand before it and after it. */
function inMemory(json: string): Buffer {
  const bytes = Buffer.from(json)
  return Buffer.concat([Buffer.from('"]}'), bytes, Buffer.from('"x')]).subarray(3, 3 + bytes.length)
}

test('what is read of bytes is what JSON.parse reads of their text', () => {
  let inBytes = 0
  for (let i = 0; i < 300; i++) {
    const value = pick([() => [valueOf(0), valueOf(0)], () => ({ content: textOf(800), a: valueOf(0) })])()
    const json = written(value)
    const read = parseJsonBytes(inMemory(json))
    expect(read).toBeDefined()
    expect(inText(read!)).toEqual(JSON.parse(json))
    if (!Array.isArray(read) && (read as { content: Value }).content instanceof Uint8Array) inBytes++
  }
  expect(inBytes).toBeGreaterThan(50)
})

test('what JSON.parse refuses is not read, wherever a byte is wrong, missing or too many', () => {
  for (let i = 0; i < 1_500; i++) {
    const json = written([{ role: 'user', content: textOf(20) }, pick([1.25, true, 'x', []])])
    const at = random(json.length)
    const broken =
      json.slice(0, at) + pick(['', '"', '\\', ',', ']', '}', '\n', '\u0001', '-', '\\ud800', '\\x']) + json.slice(at + random(3))
    const read = parseJsonBytes(Buffer.from(broken))
    if (read !== undefined) expect(read).toEqual(JSON.parse(Buffer.from(broken).toString()))
  }
})

test.each([
  ['a bare text', '"text"'],
  ['half of a character pair', '["\\ud834"]'],
  ['a key that would be a prototype', '{"__proto__": {"text": "x"}}'],
  ['what is nested deeper than anybody writes', `${'['.repeat(100)}${']'.repeat(100)}`],
  ['nothing', ''],
])('%s is left to JSON.parse', (_, json) => {
  expect(parseJsonBytes(Buffer.from(json))).toBeUndefined()
})

test('what is no UTF-8 is left to those who mend it', () => {
  expect(parseJsonBytes(Buffer.from('["\u00ff"]', 'latin1'))).toBeUndefined()
})
