// ClickHouse's RowBinary, read from a whole answer: a fraction of the cost of JSON rows. Values come in the order of the SELECT's columns.

export interface Reader {
  readonly bytes: Buffer
  at: number
}

export async function openReader(stream: AsyncIterable<Buffer>): Promise<Reader> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return { bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks), at: 0 }
}

export const isAtEnd = ({ bytes, at }: Reader): boolean => at >= bytes.length

export const readUInt8 = (reader: Reader): number => reader.bytes[reader.at++]!

export function readUInt32(reader: Reader): number {
  reader.at += 4
  return reader.bytes.readUInt32LE(reader.at - 4)
}

export function readInt32(reader: Reader): number {
  reader.at += 4
  return reader.bytes.readInt32LE(reader.at - 4)
}

/** One that a number holds. */
export function readUInt64(reader: Reader): number {
  const low = readUInt32(reader)
  return low + readUInt32(reader) * 2 ** 32
}

const int64 = new BigInt64Array(1)
const octets = new Uint8Array(int64.buffer)

/** Nanoseconds since the epoch. A Buffer would make one BigInt of two others, which takes many times as long. */
export function readInt64(reader: Reader): bigint {
  for (let i = 0; i < 8; i++) octets[i] = reader.bytes[reader.at++]!
  return int64[0]!
}

export function readFloat64(reader: Reader): number {
  reader.at += 8
  return reader.bytes.readDoubleLE(reader.at - 8)
}

export function readVarint(reader: Reader): number {
  let value = 0
  for (let shift = 0; ; shift += 7) {
    const byte = readUInt8(reader)
    value |= (byte & 127) << shift
    if (byte < 128) return value
  }
}

/** A view of the answer's bytes. */
export function readBytes(reader: Reader): Buffer {
  const size = readVarint(reader)
  reader.at += size
  return reader.bytes.subarray(reader.at - size, reader.at)
}

export function readString(reader: Reader): string {
  const size = readVarint(reader)
  if (size === 0) return ''
  reader.at += size
  return reader.bytes.toString('utf8', reader.at - size, reader.at)
}

/** Where a column's last value stands, and what it is. */
export interface Last<T> {
  at: number
  size: number
  value: T | undefined
}

/** For each column that `readAgain` reads one of its own. */
export const noneYet = <T>(): Last<T> => ({ at: 0, size: 0, value: undefined })

/**
 * Of a column that mostly says what it said in the row before: that value again, and nothing is made. Values tell where they end, so that the same
 * bytes are the same value.
 */
export function readAgain<T>(reader: Reader, last: Last<T>, read: (reader: Reader) => T): T {
  const { bytes, at } = reader
  let same = 0
  while (same < last.size && bytes[at + same] === bytes[last.at + same]) same++
  if (same === last.size && same > 0) {
    reader.at += same
    return last.value!
  }
  last.at = at
  last.value = read(reader)
  last.size = reader.at - at
  return last.value
}

export const readNullable = <T>(reader: Reader, read: (reader: Reader) => T): T | null => (readUInt8(reader) === 1 ? null : read(reader))

export function readArray<T>(reader: Reader, read: (reader: Reader) => T): T[] {
  const values: T[] = []
  for (let left = readVarint(reader); left > 0; left--) values.push(read(reader))
  return values
}
