import { describe, expect, test } from 'vitest'

import { seeded } from '../../test/random.ts'
import { CannotDecompress } from './byte_reader.ts'
import { decodeLz4Block, readLz4Frames } from './lz4.ts'

// Both were written by the reference library, through the lz4 package for Python.
const BLOCK = Buffer.from('/AMwIGxpbmVzIG9mIHRleHQsIDERABwyEQAcMxEAHDQRABw1EQAcNhEAD3cA/3BQZXh0LCA=', 'base64')
const TEXT = Buffer.from(Array.from({ length: 30 }, (_, i) => `${i % 7} lines of text, `).join(''))

/** Three blocks of up to 64 KB, each referring to the one before, with every optional field and checksum. */
const FRAME = Buffer.from(
  '04224d185c408032020000000000852f010000ff15303132333435363738396162636465666768696a6b6c6d6e6f707172737475767778797a2400' +
    `${'ff'.repeat(256)}c4506263646566eefac4060a0100000ff0${'ff'.repeat(257)}e8507273747576abd1c7cd3c0000000f2400` +
    `${'ff'.repeat(50)}9a50767778797a2e64533000000000ed43097c`,
  'hex',
)
const ALPHABET = Buffer.from('0123456789abcdefghijklmnopqrstuvwxyz'.repeat(4_000))

async function read(bytes: Buffer, size = bytes.length): Promise<Buffer> {
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  const content: Buffer[] = []
  for await (const block of readLz4Frames(pieces())) content.push(block)
  return Buffer.concat(content)
}

describe('a block', () => {
  test('of the reference library is read', () => {
    const target = Buffer.alloc(TEXT.length)
    expect(decodeLz4Block(BLOCK, target, 0)).toBe(TEXT.length)
    expect(target.equals(TEXT)).toBe(true)
  })

  test('that does not fit is refused', () => {
    expect(() => decodeLz4Block(BLOCK, Buffer.alloc(TEXT.length - 1), 0)).toThrow(CannotDecompress)
  })

  test('that is damaged is read or refused, and nothing beyond its target is touched', () => {
    const random = seeded(1)
    for (let run = 0; run < 20_000; run++) {
      const damaged = Buffer.from(BLOCK.subarray(0, 1 + random(BLOCK.length)))
      for (let times = random(4); times >= 0; times--) damaged[random(damaged.length)] = random(256)
      try {
        expect(decodeLz4Block(damaged, Buffer.alloc(600), 0)).toBeLessThanOrEqual(600)
      } catch (error) {
        expect(error).toBeInstanceOf(CannotDecompress)
      }
    }
  })
})

describe('a frame', () => {
  test.each([1, 5, 1_000])('of the reference library is read in pieces of %i bytes', async (size) => {
    expect((await read(FRAME, size)).equals(ALPHABET)).toBe(true)
  })

  test('may be followed by others', async () => {
    expect(await read(Buffer.concat([FRAME, FRAME]))).toHaveLength(2 * ALPHABET.length)
  })

  test.each([
    ['cut off', FRAME.subarray(0, -1), 'ends early'],
    ['of something else', Buffer.from('INSERT INTO words'), 'not an LZ4 frame'],
    ['of another version', Buffer.from(FRAME).fill(0x9c, 4, 5), 'not known'],
    ['with a dictionary', Buffer.from(FRAME).fill(0x5d, 4, 5), 'dictionary'],
  ])('%s is refused', async (_what, bytes, reason) => {
    await expect(read(bytes)).rejects.toThrow(reason)
  })
})
