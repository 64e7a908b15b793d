// ClickHouse's compressed blocks, which clients ask for with compress=1 and send with decompress=1: a checksum of 16 bytes, then
// method, size with these 9 bytes, size of the content, content. Answers are only framed (a method of their own), not compressed: they stay on
// this machine.

import { byteReader, CannotDecompress } from './byte_reader.ts'
import { cityHash128 } from './city_hash.ts'
import { decodeLz4Block } from './lz4.ts'

const STORED = 0x02
const LZ4 = 0x82
const CHECKSUM = 16
const HEAD = 9
const BLOCK_BYTES = 1 << 20
/** ClickHouse's own limit. */
const MAX_BYTES = 1 << 30

export async function* readBlocks(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const { take, ended } = byteReader(source)
  while (!(await ended())) {
    const start = await take(CHECKSUM + HEAD)
    const method = start[CHECKSUM]!
    const packed = start.readUInt32LE(CHECKSUM + 1)
    const size = start.readUInt32LE(CHECKSUM + 5)
    if (packed < HEAD || packed > MAX_BYTES || size > MAX_BYTES) throw new CannotDecompress('compressed block with a size that cannot be')
    const content = await take(packed - HEAD)
    const [low, high] = cityHash128(Buffer.concat([start.subarray(CHECKSUM), content]))
    if (start.readBigUInt64LE(0) !== low || start.readBigUInt64LE(8) !== high)
      throw new CannotDecompress('compressed block with a wrong checksum')
    yield unpack(method, content, size)
  }
}

function unpack(method: number, content: Buffer, size: number): Buffer {
  if (method !== STORED && method !== LZ4) throw new CannotDecompress(`compressed block of an unknown method 0x${method.toString(16)}`)
  const bytes = method === STORED ? content : Buffer.allocUnsafe(size)
  const written = method === STORED ? content.length : decodeLz4Block(content, bytes, 0)
  if (written !== size) throw new CannotDecompress('compressed block of another size than it says')
  return bytes
}

export function writeBlocks(bytes: Buffer): Buffer {
  const blocks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) blocks.push(...block(bytes.subarray(at, at + BLOCK_BYTES)))
  return Buffer.concat(blocks)
}

function block(content: Buffer): Buffer[] {
  const head = Buffer.alloc(HEAD)
  head[0] = STORED
  head.writeUInt32LE(HEAD + content.length, 1)
  head.writeUInt32LE(content.length, 5)
  const body = Buffer.concat([head, content])
  const [low, high] = cityHash128(body)
  const checksum = Buffer.alloc(CHECKSUM)
  checksum.writeBigUInt64LE(low, 0)
  checksum.writeBigUInt64LE(high, 8)
  return [checksum, body]
}
