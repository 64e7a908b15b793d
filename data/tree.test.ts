import { describe, expect, test } from 'vitest'

import { randomSpans, seeded, span, treeOf } from '../test/random.ts'

describe('the span tree', () => {
  test('holds parents and times, in microseconds since the first start', () => {
    const tree = treeOf([span('b', 'a', 5, 9), span('a', '', 2, 20)])
    expect([...tree.parent]).toEqual([1, -1])
    expect([...tree.start]).toEqual([3, 0])
    expect([...tree.end]).toEqual([7, 18])
    expect(tree.origin).toBe(1_002_000n)
  })

  test('a missing parent makes a root and is counted', () => {
    const tree = treeOf([span('a', 'nobody', 0, 1), span('b', 'a', 0, 1)])
    expect([[...tree.parent], tree.orphans, tree.cycles]).toEqual([[-1, 0], 1, 0])
  })

  test('a span that is its own parent is a root', () => {
    const tree = treeOf([span('a', 'a', 0, 1)])
    expect([[...tree.parent], tree.orphans, tree.cycles]).toEqual([[-1], 0, 1])
  })

  test('a cycle of parents is cut above its earliest span', () => {
    const tree = treeOf([span('c', 'b', 3, 4), span('a', 'c', 1, 9), span('b', 'a', 2, 8), span('d', 'c', 4, 5)])
    expect([[...tree.parent], tree.orphans, tree.cycles]).toEqual([[2, -1, 1, 0], 0, 1])
  })

  test('of several spans with one id the first is in it', () => {
    const tree = treeOf([span('a', '', 0, 9), span('a', '', 3, 8), span('b', 'a', 1, 2)])
    expect([[...tree.parent], [...tree.start]]).toEqual([
      [-1, 0],
      [0, 1],
    ])
  })

  test('a parent is looked for in its own trace', () => {
    const tree = treeOf([{ ...span('a', '', 0, 9), trace_id: 'other' }, span('b', 'a', 1, 2)])
    expect([[...tree.parent], tree.orphans]).toEqual([[-1, -1], 1])
  })

  test('a span that was never ended, or ended before it began, has no duration; one without a start begins at its end', () => {
    const tree = treeOf([
      span('a', '', 1, 50),
      span('b', 'a', 10, -1),
      span('c', 'a', 10, 7),
      span('d', 'a', -1, 30),
      span('e', 'a', -1, -1),
    ])
    expect([...tree.start]).toEqual([0, 9, 9, 29, 0])
    expect([...tree.end]).toEqual([49, 9, 9, 29, 0])
  })

  test('behind a start in whole milliseconds an end counts as its millisecond, so that what came next did come after', () => {
    const at = (id: string, start: bigint, end: bigint) => ({ ...span(id, '', 0, 0), start_time: start, end_time: end })
    const coarse = treeOf([at('a', 47_000_000n, 47_133_859n), at('b', 47_000_000n, 52_624_786n), at('c', 52_000_000n, 53_400_000n)])
    expect([[...coarse.start], [...coarse.end]]).toEqual([
      [0, 0, 5_000],
      [0, 5_000, 6_000],
    ])
    const fine = treeOf([at('a', 47_000_001n, 47_133_859n), at('b', 47_000_001n, 52_624_786n)])
    expect([...fine.end]).toEqual([133.858, 5_624.785])
  })

  test('no tree has a cycle, and one of 100,000 spans in a single chain is no trouble', () => {
    const random = seeded(1)
    for (let i = 0; i < 200; i++) {
      const { parent, count } = treeOf(randomSpans(random, 1 + random(30)))
      for (let node = 0; node < count; node++) {
        let steps = 0
        for (let n = node; n !== -1; n = parent[n]!) expect(steps++).toBeLessThan(count)
      }
    }
    const chain = Array.from({ length: 100_000 }, (_, i) => span(String(i), i === 0 ? '99999' : String(i - 1), i, i + 1))
    expect(treeOf(chain).cycles).toBe(1)
  })

  test('nothing gives an empty tree', () => {
    expect(treeOf([]).count).toBe(0)
  })
})
