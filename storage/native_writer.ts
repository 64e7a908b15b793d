// ClickHouse's Native, written: a block is a head, and then its columns one after the other, each behind its name and type. ClickHouse makes of
// them the types that the table's columns have. native_reader.ts reads what it answers.

import { openRows, putString, putUInt64, putVarint, written, type Rows } from './row_binary.ts'

export function blockHead(columns: number, rows: number): Buffer {
  const head = openRows(16)
  putVarint(head, columns)
  putVarint(head, rows)
  return written(head)
}

export function columnHead(name: string, type: string): Buffer {
  const head = openRows(64)
  putString(head, name)
  putString(head, type)
  return written(head)
}

/** Of LowCardinality: that its values come with it (512), and that places among them have 16 bits (1). */
const OWN_VALUES_16_BITS = 513

/** A LowCardinality column: a version, its kind, the values, and of each row which of them it has. */
export function lowCardinality<T>(values: readonly T[], put: (rows: Rows, value: T) => void, numbers: Uint16Array): Buffer[] {
  const head = openRows(1_024)
  putUInt64(head, 1)
  putUInt64(head, OWN_VALUES_16_BITS)
  putUInt64(head, values.length)
  for (const value of values) put(head, value)
  putUInt64(head, numbers.length)
  return [written(head), bytesOf(numbers)]
}

/** Numbers as they lie in memory: the lowest byte first, wherever Node and ClickHouse run. */
export const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer => Buffer.from(buffer, byteOffset, byteLength)
