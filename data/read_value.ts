// From OTLP bytes to the values of attributes. Messages sent in parts are merged, as the protobuf rules say.

import { LONG } from './json_bytes.ts'
import { keyText, shortText } from './marks.ts'
import type { Attributes, Value } from './span.ts'
import { fixed, int64, open, skip, tag, varint, type Cursor } from './wire.ts'

export const NO_KEYS: ReadonlySet<string> = new Set()

export type Mutable = { [key: string]: Value }

const NOTHING_INHERITED = Object.freeze(Object.create(null)) as object

/**
 * Nothing stands in its prototype: a span may well carry an attribute named `constructor`. An object that has no prototype at all is a hash
 * table from its first key on, which takes twice as long to fill and to look into.
 */
export const emptyAttributes = (): Mutable => Object.create(NOTHING_INHERITED) as Mutable
export const NO_ATTRIBUTES: Attributes = Object.freeze(emptyAttributes())

export function addAttribute(to: Mutable, c: Cursor, end: number, inBytes = NO_KEYS): void {
  const { key, value } = readKeyValue(c, end, inBytes)
  to[key] = value
}

export function readKeyValue(c: Cursor, end: number, inBytes = NO_KEYS): { key: string; value: Value } {
  let key = ''
  let value: Value = null
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) key = keyText(c, end)
    else if (field === 18) value = (inBytes.has(key) ? longText(c, end) : undefined) ?? readValue(c, open(c, end), value)
    else skip(c, field, end)
  }
  return { key, value }
}

/** Of a value that is nothing but a long string, its bytes; of any other nothing, and it is still to be read. */
function longText(c: Cursor, end: number): Uint8Array | undefined {
  const { bytes, pos } = c
  const valueEnd = open(c, end)
  if (valueEnd - c.pos > LONG && bytes[c.pos++] === 10) {
    const textEnd = open(c, valueEnd)
    const { pos: start } = c
    c.pos = textEnd
    if (textEnd === valueEnd) return bytes.subarray(start, textEnd)
  }
  c.pos = pos
  return undefined
}

/** An AnyValue. `before` is what an earlier part of the same value said: lists of the same kind are merged. */
export function readValue(c: Cursor, end: number, before: Value = null): Value {
  let value = before
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) value = shortText(c, end)
    else if (field === 16) value = varint(c, end) !== 0
    else if (field === 24) value = int64(c, end)
    else if (field === 33) value = c.bytes.readDoubleLE(fixed(c, 8, end))
    else if (field === 42) value = readList(c, open(c, end), Array.isArray(value) ? (value as Value[]) : [])
    else if (field === 50) value = readMap(c, open(c, end), isMap(value) ? value : emptyAttributes())
    else if (field === 58) value = readBytes(c, open(c, end))
    else skip(c, field, end)
  }
  return value
}

function readBytes(c: Cursor, end: number): Uint8Array {
  const bytes = new Uint8Array(c.bytes.subarray(c.pos, end))
  c.pos = end
  return bytes
}

function readList(c: Cursor, end: number, list: Value[]): Value[] {
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) list.push(readValue(c, open(c, end)))
    else skip(c, field, end)
  }
  return list
}

function readMap(c: Cursor, end: number, map: Mutable): Attributes {
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) addAttribute(map, c, open(c, end))
    else skip(c, field, end)
  }
  return map
}

const isMap = (value: Value): value is Mutable =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
