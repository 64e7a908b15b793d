// ClickHouse's Native, read from a whole answer: blocks of columns, in which what many rows hold stands together, so that lists of numbers
// are taken as they lie there. For answers that are mostly such lists; JSON writes each number out, RowBinary goes through them one by one.

import { isAtEnd, readString, readVarint, type Reader } from './row_reader.ts'

/** One value a row. */
type Column = readonly unknown[]

const NUMBERS = {
  UInt8: Uint8Array,
  UInt16: Uint16Array,
  Int32: Int32Array,
  UInt32: Uint32Array,
  UInt64: BigUint64Array,
  Float32: Float32Array,
  Float64: Float64Array,
} as const

/** What the places of a LowCardinality column's values are told in. */
const PLACES = ['UInt8', 'UInt16', 'UInt32', 'UInt64'] as const

/** Of String, LowCardinality(String), the types in NUMBERS, and Nullable and Array of these. Throws for others, and for what is no whole answer. */
export function* readNative(reader: Reader): Generator<Record<string, unknown>> {
  while (!isAtEnd(reader)) {
    const count = readVarint(reader)
    const rows = readVarint(reader)
    const columns: [string, Column][] = []
    for (let i = 0; i < count; i++) {
      const name = readString(reader)
      columns.push([name, readColumn(reader, readString(reader), rows)])
    }
    for (let i = 0; i < rows; i++) {
      const row: Record<string, unknown> = {}
      for (const [name, values] of columns) row[name] = values[i]
      yield row
    }
  }
}

function readColumn(reader: Reader, type: string, rows: number): Column {
  const [, wrapper, inner] = /^(Nullable|Array)\((.*)\)$/.exec(type) ?? []
  if (wrapper === 'Nullable') {
    const isNull = readNumbers(reader, 'UInt8', rows)
    return readColumn(reader, inner!, rows).map((value, row) => (isNull[row] ? null : value))
  }
  if (wrapper === 'Array') {
    const ends = readColumn(reader, 'UInt64', rows) as readonly number[]
    const values = readColumn(reader, inner!, ends.at(-1) ?? 0)
    return ends.map((end, row) => values.slice(ends[row - 1] ?? 0, end))
  }
  if (type === 'String') return Array.from({ length: rows }, () => readString(reader))
  if (type === 'LowCardinality(String)') return rows === 0 ? [] : readLowCardinality(reader)
  if (!isNumeric(type)) throw new Error(`ClickHouse's answer has a column of type ${JSON.stringify(type)}, which is not read`)
  const numbers = readNumbers(reader, type, rows)
  return numbers instanceof BigUint64Array ? Array.from(numbers, Number) : Array.from<number>(numbers)
}

/** Each value once, then of each row its place among them. Before both a version, and what kind the places are of. */
function readLowCardinality(reader: Reader): Column {
  const [, kind] = readNumbers(reader, 'UInt64', 2)
  const values = readColumn(reader, 'String', readCount(reader))
  return readColumn(reader, PLACES[Number(kind! & 3n)]!, readCount(reader)).map((place) => values[place as number])
}

const readCount = (reader: Reader): number => Number(readNumbers(reader, 'UInt64', 1)[0])

const isNumeric = (type: string): type is keyof typeof NUMBERS => Object.hasOwn(NUMBERS, type)

function readNumbers<T extends keyof typeof NUMBERS>(reader: Reader, type: T, count: number): InstanceType<(typeof NUMBERS)[T]> {
  const size = count * NUMBERS[type].BYTES_PER_ELEMENT
  reader.at += size
  if (reader.at > reader.bytes.length) throw new Error("ClickHouse's answer ends within a column")
  // A copy, since in an answer numbers begin anywhere.
  const bytes = new Uint8Array(reader.bytes.subarray(reader.at - size, reader.at))
  return new NUMBERS[type](bytes.buffer) as InstanceType<(typeof NUMBERS)[T]>
}
