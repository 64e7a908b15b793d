// ClickHouse's Native, written: a block is a head, and then its columns one after the other, each behind its name and type. ClickHouse makes of
// them the types that the table's columns have. native_reader.ts reads what it answers.

import { openRows, putRaw, putString, putUInt64, putVarint, reserve, written, type Rows } from './row_binary.ts'

export function putBlockHead(out: Rows, columns: number, rows: number): void {
  putVarint(out, columns)
  putVarint(out, rows)
}

/** What stands before a column's values. */
export function columnHead(name: string, type: string): Buffer {
  const head = openRows(64)
  putString(head, name)
  putString(head, type)
  return written(head)
}

/** Of LowCardinality: a version, and that its values come with it (512) and places among them have 16 bits (1). */
const OWN_VALUES_16_BITS = Buffer.from(new BigUint64Array([1n, 513n]).buffer)

/** A LowCardinality column: its kind, the values, and of each row from `from` up to `to` which of them it has, where numbers begin with `first`. */
export function putLowCardinality<T>(
  out: Rows,
  values: readonly T[],
  put: (out: Rows, value: T) => void,
  numbers: Uint16Array,
  { from, to, first }: { readonly from: number; readonly to: number; readonly first: number },
): void {
  putRaw(out, OWN_VALUES_16_BITS)
  putUInt64(out, values.length)
  for (const value of values) put(out, value)
  putUInt64(out, to - from)
  reserve(out, 2 * (to - from))
  const { bytes } = out
  let at = out.length
  for (let i = from; i < to; i++) {
    const number = numbers[i]! - first
    bytes[at++] = number & 255
    bytes[at++] = number >>> 8
  }
  out.length = at
}

/** The same eight bytes for each of so many rows. */
export function putSame(out: Rows, value: number, rows: number): void {
  const start = out.length
  putUInt64(out, value)
  const end = start + 8 * rows
  reserve(out, 8 * rows)
  // Each copy is twice as long as the one before.
  for (let at = out.length; at < end; at += at - start) out.bytes.copyWithin(at, start, Math.min(at, end - at + start))
  out.length = end
}

/** Numbers as they lie in memory: the lowest byte first, wherever Node and ClickHouse run. */
export const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer => Buffer.from(buffer, byteOffset, byteLength)
