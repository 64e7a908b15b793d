import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { BLOCK, openKvCache, type Sequence } from './kv_cache.ts'

const tokens = (count: number, seed = 1) => Array.from({ length: count }, (_, i) => (i * seed) % 97)

/** Reads all of it at once, as a pass of the model does. */
function write(cache: ReturnType<typeof openKvCache>, sequence: Sequence, all: readonly number[]): void {
  const rest = all.slice(sequence.tokens.length)
  cache.extend(sequence, rest.length)
  cache.written(sequence, rest)
}

test('a prompt that goes on from an earlier conversation takes over its full blocks, and the last token is always read', () => {
  const cache = openKvCache(20)
  const first = cache.open(tokens(40), 60)!
  expect(first.reused).toBe(0)
  write(cache, first, tokens(50))
  cache.close(first)
  expect(cache.open(tokens(100), 110)!.reused).toBe(3 * BLOCK)
  expect(cache.open(tokens(2 * BLOCK), 40)!.reused).toBe(BLOCK)
  expect(cache.open(tokens(60, 5), 70)!.reused).toBe(0)
})

test('prompts that run at once share what they begin with', () => {
  const cache = openKvCache(12)
  const [a, b] = [cache.open(tokens(40), 48)!, cache.open(tokens(40), 48)!]
  write(cache, a, tokens(40))
  write(cache, b, tokens(40))
  const third = cache.open(tokens(40), 48)!
  expect(third.blocks).toEqual(a.blocks.slice(0, 2))
  cache.close(a)
  cache.close(b)
  expect(third.blocks.every((block) => a.blocks.includes(block))).toBe(true)
})

test('what does not fit now waits, and what never fits is an error', () => {
  const cache = openKvCache(4)
  const first = cache.open(tokens(20), 3 * BLOCK)!
  expect(cache.open(tokens(20, 2), 2 * BLOCK)).toBeNull()
  cache.close(first)
  expect(cache.open(tokens(20, 2), 2 * BLOCK)).not.toBeNull()
  expect(() => cache.open(tokens(20), 5 * BLOCK)).toThrow('do not fit into the key-value cache of 64')
})

test('whatever opens, grows and closes, a block holds what its sequences say, and room that was promised is there', () => {
  const random = seeded(5)
  const capacity = 24
  const cache = openKvCache(capacity)
  /** What a model would have written. */
  const memory = new Map<number, number[]>()
  const open = new Map<Sequence, number[]>()
  let [reused, refused] = [0, 0]
  for (let round = 0; round < 3000; round++) {
    if (open.size < 6 && random(3) > 0) {
      const all = Array.from({ length: 2 + random(90) }, (_, i) => (random(30) === 0 ? 1 : i % 3))
      const sequence = cache.open(all.slice(0, 1 + random(all.length - 1)), all.length)
      if (!sequence) refused++
      else {
        reused += sequence.reused
        open.set(sequence, all)
      }
    }
    for (const [sequence, all] of open) {
      const piece = all.slice(sequence.tokens.length, sequence.tokens.length + 1 + random(20))
      cache.extend(sequence, piece.length)
      const from = sequence.tokens.length
      cache.written(sequence, piece)
      piece.forEach((token, i) => {
        const block = sequence.blocks[Math.floor((from + i) / BLOCK)]!
        if ((from + i) % BLOCK === 0) memory.set(block, [])
        memory.get(block)!.push(token)
      })
      expect(sequence.blocks.flatMap((block) => memory.get(block)!)).toEqual(all.slice(0, sequence.tokens.length))
      if (sequence.tokens.length === all.length || random(20) === 0) {
        cache.close(sequence)
        open.delete(sequence)
      }
    }
  }
  expect(reused).toBeGreaterThan(1000)
  expect(refused).toBeGreaterThan(10)
  for (const sequence of open.keys()) cache.close(sequence)
  expect(cache.open(tokens(BLOCK), capacity * BLOCK)).not.toBeNull()
})
