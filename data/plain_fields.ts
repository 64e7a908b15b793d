// Fields of a span as nearly all exporters write them. Each is passed over, checked, by a few comparisons and without a cursor; whatever is
// written otherwise is left to scan.ts, which reads any.

import { isZero } from './item_fields.ts'
import { COLUMN } from './span_batch.ts'

/** What passPlain found. */
export const passed = { key: 0, keyLength: 0 }

/**
 * Passes over the KeyValue whose length prefix stands at `slot`, if it is a short key and then a value that is text, a number or a truth
 * value. Returns where it ends; 0 for any other.
 */
export function passPlain(bytes: Buffer, slot: number, limit: number): number {
  const start = afterLength(bytes, slot)
  const end = start + length
  if (end > limit || length < SMALLEST || bytes[start] !== KEY) return 0
  const keyLength = bytes[start + 1]!
  const value = start + 2 + keyLength
  if (keyLength > 127 || value + 4 > end || bytes[value] !== VALUE) return 0
  const inner = afterLength(bytes, value + 1)
  if (inner + length !== end || inner + 2 > end) return 0
  const kind = bytes[inner]!
  if (kind === STRING) {
    const text = afterLength(bytes, inner + 1)
    if (text + length !== end) return 0
  } else if (kind === INT || kind === BOOL) {
    if (!isVarint(bytes, inner + 1, end)) return 0
  } else if (kind !== DOUBLE || inner + 9 !== end) return 0
  passed.key = start + 2
  passed.keyLength = keyLength
  return end
}

/** A key of no bytes, and a value of two. */
const SMALLEST = 6
const KEY = (1 << 3) | 2
const VALUE = (2 << 3) | 2
const STRING = (1 << 3) | 2
const BOOL = 2 << 3
const INT = 3 << 3
const DOUBLE = (4 << 3) | 1

/** What afterLength read. */
let length = 0
const TOO_LONG = 2 ** 30

/** Reads a length of one or two bytes; any other is too long for what is looked for. */
function afterLength(bytes: Buffer, at: number): number {
  const low = bytes[at]!
  length = low
  if (low < 128) return at + 1
  const high = bytes[at + 1]!
  length = high < 128 ? (low & 127) | (high << 7) : TOO_LONG
  return at + 2
}

const MOST_VARINT = 10

/** Whether one varint stands there, and nothing else. */
function isVarint(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > MOST_VARINT || bytes[end - 1]! >= 128) return false
  for (let i = start; i < end - 1; i++) if (bytes[i]! < 128) return false
  return true
}

/** Passes over an id, a time, the name or the kind, whose tag stands at `pos`, and notes it. Returns where it ends; 0 for any other field. */
export function passPlainField(bytes: Buffer, pos: number, end: number, columns: Int32Array, at: number): number {
  if (pos + 1 >= end) return 0
  const next = bytes[pos + 1]!
  switch (bytes[pos]) {
    case 10:
      if (next !== 16 || pos + 18 > end || isZero(bytes, pos + 2, 16)) return 0
      columns[at + COLUMN.trace_id] = pos + 2
      return pos + 18
    case 18:
      if (next !== 8 || pos + 10 > end || isZero(bytes, pos + 2, 8)) return 0
      columns[at + COLUMN.span_id] = pos + 2
      return pos + 10
    case 34:
      if (next !== 8 || pos + 10 > end || isZero(bytes, pos + 2, 8)) return 0
      columns[at + COLUMN.parent_span_id] = pos + 2
      return pos + 10
    case 42:
      if (next > 127 || pos + 2 + next > end) return 0
      columns[at + COLUMN.name] = pos + 2
      columns[at + COLUMN.name_length] = next
      return pos + 2 + next
    case 48:
      if (next > 127) return 0
      columns[at + COLUMN.kind] = next
      return pos + 2
    case 57:
      if (pos + 9 > end) return 0
      columns[at + COLUMN.start_time] = pos + 1
      return pos + 9
    case 65:
      if (pos + 9 > end) return 0
      columns[at + COLUMN.end_time] = pos + 1
      return pos + 9
    default:
      return 0
  }
}
