import { expect, test } from 'vitest'

import { takeMemory } from '../data/shared_memory.ts'
import { createPool } from './pool.ts'

const MB = 1 << 20

function pool(budget: number) {
  const limited: string[] = []
  return { ...createPool(budget, () => limited.push('bytes_in_flight')), limited }
}

test.each([
  [1, 4_096],
  [4_096, 4_096],
  [4_097, 5_120],
  [100_000, 114_688],
  [MB, MB],
  [MB + 1, 1.25 * MB],
  [64 * MB, 64 * MB],
  [2047 * MB, 2048 * MB],
])('a buffer for %i bytes has %i', (bytes, size) => {
  const { take, give, used } = pool(4096 * MB)
  const buffer = take(bytes)
  expect(buffer).toHaveLength(size)
  expect(used()).toBe(size)
  give(buffer)
  expect(used()).toBe(0)
})

test('a buffer that was given back is taken again', () => {
  const { take, give } = pool(MB)
  const buffer = take(10_000)
  give(buffer)
  expect(take(9_999)).toBe(buffer)
  expect(take(9_999)).not.toBe(buffer)
})

test('the budget bounds what is taken and reserved, and refuses the rest', () => {
  const { take, give, reserve, release, limited } = pool(MB)
  const buffer = take(0.75 * MB)
  reserve(0.25 * MB)
  expect(() => take(1)).toThrow('no memory')
  expect(() => reserve(1)).toThrow('no memory')
  expect(limited).toEqual(['bytes_in_flight', 'bytes_in_flight'])
  release(0.25 * MB)
  give(buffer)
  expect(take(MB)).toHaveLength(MB)
})

test('buffers that are kept give way to others, within the budget', () => {
  const { take, give } = pool(MB)
  const small = Array.from({ length: 256 }, () => take(4_096))
  small.forEach(give)
  const large = take(MB)
  give(large)
  expect(small).toContain(takeMemory(4_096))
})

test('a trim frees what was not needed since the last one', () => {
  const { take, give, trim } = pool(MB)
  const [first, second] = [take(5_000), take(5_000)]
  give(first)
  give(second)
  trim()
  give(take(5_000))
  trim()
  expect([first, second]).toContain(takeMemory(5_120))
  expect([first, second]).toContain(take(5_000))
})
