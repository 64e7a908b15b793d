// ClickHouse's RowBinary, written into one growing buffer: a third of the cost of JSON rows, and
// what is bytes already stays bytes. Values come in the order of the INSERT's columns.

import { sizeOfLength } from '../data/wire_out.ts'

export interface Rows {
  bytes: Buffer
  length: number
  count: number
}

export const openRows = (capacity = 1 << 16): Rows => ({ bytes: Buffer.allocUnsafeSlow(capacity), length: 0, count: 0 })

export const written = ({ bytes, length }: Rows): Buffer => bytes.subarray(0, length)

/** Makes room for `size` more bytes. */
export function reserve(rows: Rows, size: number): void {
  const needed = rows.length + size
  if (needed <= rows.bytes.length) return
  const grown = Buffer.allocUnsafeSlow(Math.max(needed, rows.bytes.length * 2))
  rows.bytes.copy(grown, 0, 0, rows.length)
  rows.bytes = grown
}

export function putUInt8(rows: Rows, value: number): void {
  reserve(rows, 1)
  rows.bytes[rows.length++] = value
}

export function putUInt32(rows: Rows, value: number): void {
  reserve(rows, 4)
  rows.length = rows.bytes.writeUInt32LE(value, rows.length)
}

export function putInt32(rows: Rows, value: number): void {
  reserve(rows, 4)
  rows.length = rows.bytes.writeInt32LE(value, rows.length)
}

const WORD = 2 ** 32

/** UInt64, or the ticks of a DateTime64. A number is a whole one, and not negative. */
export function putUInt64(rows: Rows, value: bigint | number): void {
  if (typeof value === 'number') {
    putUInt32(rows, value % WORD)
    putUInt32(rows, Math.floor(value / WORD))
    return
  }
  reserve(rows, 8)
  uint64[0] = value
  for (let i = 0; i < 8; i++) rows.bytes[rows.length++] = octets[i]!
}

/** A Buffer would make BigInts of their own of its halves, which takes many times as long. */
const uint64 = new BigUint64Array(1)
const octets = new Uint8Array(uint64.buffer)

export function putFloat64(rows: Rows, value: number): void {
  reserve(rows, 8)
  rows.length = rows.bytes.writeDoubleLE(value, rows.length)
}

/** A Nullable column: `put` writes the value where there is one. */
export function putNullable<T>(rows: Rows, value: T | null, put: (rows: Rows, value: T) => void): void {
  putUInt8(rows, value === null ? 1 : 0)
  if (value !== null) put(rows, value)
}

export function putVarint(rows: Rows, value: number): void {
  reserve(rows, 5)
  while (value > 127) {
    rows.bytes[rows.length++] = (value & 127) | 128
    value >>>= 7
  }
  rows.bytes[rows.length++] = value
}

/** For a few bytes a loop is cheaper than a call out of JavaScript. */
const FEW = 64

/** Longer text is measured before it is written; shorter, the other way round, which is one pass over it less. */
const MEASURED = 1 << 16

export function putString(rows: Rows, text: string): void {
  if (text.length < FEW && putAscii(rows, text)) return
  if (text.length > MEASURED) reserve(rows, MOST_VARINT + Buffer.byteLength(text))
  else reserve(rows, MOST_VARINT + MOST_BYTES * text.length)
  // Its length in bytes stands before it. That takes as much room as its length in characters does, almost always.
  const guessed = rows.length + sizeOfLength(text.length)
  const size = rows.bytes.write(text, guessed)
  const start = rows.length + sizeOfLength(size)
  if (start !== guessed) rows.bytes.copyWithin(start, guessed, guessed + size)
  putVarint(rows, size)
  rows.length += size
}

/** False where the text is none, and then nothing is written. */
function putAscii(rows: Rows, text: string): boolean {
  reserve(rows, 1 + text.length)
  const { bytes } = rows
  let to = rows.length + 1
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 127) return false
    bytes[to++] = code
  }
  bytes[rows.length] = text.length
  rows.length = to
  return true
}

const MOST_VARINT = 5
/** Of a UTF-16 unit in UTF-8. */
const MOST_BYTES = 3

/** Bytes as they are, with no length before them. */
export function putRaw(rows: Rows, source: Buffer, start = 0, end = source.length): void {
  reserve(rows, end - start)
  rows.length = copied(source, start, end, rows.bytes, rows.length)
}

export function putBytes(rows: Rows, source: Buffer, start = 0, end = source.length): void {
  reserve(rows, MOST_VARINT + end - start)
  rows.length = copied(source, start, end, rows.bytes, writeVarint(rows.bytes, rows.length, end - start))
}

/** Where they end. */
function copied(source: Buffer, start: number, end: number, bytes: Buffer, at: number): number {
  if (end - start >= FEW) return at + source.copy(bytes, at, start, end)
  let to = at
  for (let from = start; from < end; from++) bytes[to++] = source[from]!
  return to
}

/** At most MOST_VARINT bytes. */
export function writeVarint(bytes: Buffer, at: number, value: number): number {
  let to = at
  let rest = value
  for (; rest > 127; rest >>>= 7) bytes[to++] = (rest & 127) | 128
  bytes[to++] = rest
  return to
}

export function putArray<T>(rows: Rows, values: readonly T[], put: (rows: Rows, value: T) => void): void {
  putVarint(rows, values.length)
  for (const value of values) put(rows, value)
}

export function putMap<T>(rows: Rows, entries: Readonly<Record<string, T>>, put: (rows: Rows, value: T) => void): void {
  const keys = Object.keys(entries)
  putVarint(rows, keys.length)
  for (const key of keys) {
    putString(rows, key)
    put(rows, entries[key]!)
  }
}

/** Array(UInt32). What is no such number wraps around, so that no token id of a stranger stops an insert. */
export const putUInt32Array = (rows: Rows, values: readonly number[]): void =>
  values.length === 0 ? putUInt8(rows, 0) : putNumbers(rows, Uint32Array.from(values))

/** Array(Float32). */
export const putFloat32Array = (rows: Rows, values: readonly number[]): void =>
  values.length === 0 ? putUInt8(rows, 0) : putNumbers(rows, Float32Array.from(values))

function putNumbers(rows: Rows, values: Uint32Array | Float32Array): void {
  putVarint(rows, values.length)
  reserve(rows, values.byteLength)
  rows.bytes.set(new Uint8Array(values.buffer), rows.length)
  rows.length += values.byteLength
}
