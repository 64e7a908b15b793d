import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { allocate, copyBytes } from './arena.ts'

test('bytes are copied as Buffer.copy does, within the arena and across its border', () => {
  const random = seeded(1)
  const ours = [allocate(1_000), allocate(1_000)]
  const buffers = [...ours, Buffer.alloc(1_000), Buffer.from('pooled'.repeat(200))]
  for (let step = 0; step < 500; step++) {
    const [source, target] = [buffers[random(4)]!, buffers[random(4)]!]
    source.fill(random(256), random(500), 500 + random(500))
    const start = random(300)
    const end = start + random(200)
    const at = random(300)
    const expected = Buffer.from(target)
    Buffer.from(source).copy(expected, at, start, end)
    copyBytes(source, start, end, target, at)
    expect(target.equals(expected)).toBe(true)
  }
})

test('pieces do not overlap, and what the arena does not hold has memory of its own', () => {
  const pieces = [100, 3_000_000, 7, 21 << 20, ...Array<number>(6).fill(19 << 20)].map(allocate)
  const edges = (piece: Buffer) => [piece[0], piece.at(-1)]
  pieces.forEach((piece, i) => piece.fill(i, 0, 1).fill(i, piece.length - 1))
  expect(pieces.map(edges)).toEqual(pieces.map((_, i) => [i, i]))
})
