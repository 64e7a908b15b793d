// Reads LZ4, which ClickHouse's clients send: raw blocks (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md) and frames
// (lz4_Frame_format.md). Nothing is written with it. Checksums of frames are passed over; dictionaries are refused.

import { byteReader, CannotDecompress, type ByteReader } from './byte_reader.ts'

const FRAME = 0x184d2204
/** How far back a match may reach. */
const WINDOW = 1 << 16

/** Writes what `source` holds into `target` from `at` on, where earlier bytes may be referred to, and returns where it ends. */
export function decodeLz4Block(source: Uint8Array, target: Uint8Array, at: number): number {
  let from = 0
  let to = at

  /** A length of 15 goes on in the bytes that follow, until one is not 255. */
  function length(nibble: number): number {
    if (nibble < 15) return nibble
    let sum = nibble
    for (;;) {
      if (from >= source.length) throw new CannotDecompress('LZ4 block ends within a length')
      const byte = source[from++]!
      sum += byte
      if (byte < 255) return sum
    }
  }

  while (from < source.length) {
    const token = source[from++]!
    const literals = length(token >> 4)
    if (from + literals > source.length || to + literals > target.length) throw new CannotDecompress('LZ4 literals reach past the end')
    target.set(source.subarray(from, from + literals), to)
    from += literals
    to += literals
    if (from === source.length) break

    if (from + 2 > source.length) throw new CannotDecompress('LZ4 block ends within an offset')
    const offset = source[from]! | (source[from + 1]! << 8)
    from += 2
    const size = length(token & 15) + 4
    if (offset === 0 || offset > to || to + size > target.length) throw new CannotDecompress('LZ4 match reaches past an end')
    // A match may overlap what it writes: it then repeats itself.
    if (offset >= size) target.copyWithin(to, to - offset, to - offset + size)
    else for (let i = to; i < to + size; i++) target[i] = target[i - offset]!
    to += size
  }
  return to
}

/** The content of the frames that follow each other in `source`, a block at a time. */
export async function* readLz4Frames(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const reader = byteReader(source)
  while (!(await reader.ended())) yield* frame(reader)
}

async function* frame({ take }: ByteReader): AsyncGenerator<Buffer> {
  const head = await take(6)
  if (head.readUInt32LE(0) !== FRAME) throw new CannotDecompress('not an LZ4 frame')
  const flags = head[4]!
  const maxSize = 1 << (8 + 2 * ((head[5]! >> 4) & 7))
  if (flags >> 6 !== 1 || maxSize < WINDOW) throw new CannotDecompress('LZ4 frame of a kind that is not known')
  if (flags & 1) throw new CannotDecompress('LZ4 frame with a dictionary')
  await take((flags & 8 ? 8 : 0) + 1) // the size of the content, and a check of the header

  // Blocks may refer to those before them, so the last of what was read stays in front of what comes.
  const window = Buffer.alloc(WINDOW + maxSize)
  let kept = 0
  for (;;) {
    const word = (await take(4)).readUInt32LE(0)
    const size = word & 0x7fffffff
    if (size === 0) break
    if (size > maxSize) throw new CannotDecompress('LZ4 block is larger than its frame allows')
    const block = await take(size)
    if (flags & 16) await take(4)
    const end = word >>> 31 ? kept + block.copy(window, kept) : decodeLz4Block(block, window, kept)
    yield Buffer.from(window.subarray(kept, end))
    window.copyWithin(0, Math.max(0, end - WINDOW), end)
    kept = Math.min(end, WINDOW)
  }
  if (flags & 4) await take(4)
}
