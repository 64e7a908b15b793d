import { describe, expect, test } from 'vitest'

import { pairwise } from '../test/pairwise.ts'
import { randomSpans, seeded, span, treeOf } from '../test/random.ts'
import { spanTree } from '../test/span_tree.ts'
import { backward, causalityOf, forward, lastBefore, nextAfter } from './causality.ts'
import type { SpanTree } from './tree.ts'

const random = seeded(7)
const trees = Array.from({ length: 300 }, () => treeOf(randomSpans(random, 1 + random(25))))

const before = (tree: SpanTree) => {
  const happened = pairwise(tree)
  const nodes = [...tree.parent.keys()]
  return nodes.map((v) => nodes.filter((u) => happened(u, v)))
}

describe('what happened before what', () => {
  test('a run with a tool, two parallel branches and an answer is ordered as in the fixture', () => {
    const { tree, ids, trained, expected } = spanTree
    const happened = pairwise(tree)
    const pairs = trained.flatMap((u) => trained.filter((v) => happened(u, v)).map((v) => [ids[u], ids[v]]))
    expect(pairs.toSorted()).toEqual(expected.happens_before.toSorted())
  })

  test('it is a strict partial order on any tree', () => {
    const violations = trees.flatMap((tree) => {
      const sets = before(tree).map((nodes) => new Set(nodes))
      return sets.flatMap((past, v) => [...past].flatMap((u) => (u === v ? [v] : [...sets[u]!].filter((w) => !past.has(w)))))
    })
    expect(violations).toEqual([])
  })

  test('sweeping over the branches of every fork finds the same as asking of every pair', () => {
    for (const tree of trees) {
      const causality = causalityOf(tree)
      const below = (branch: number, fork: number): number[] =>
        branch === fork
          ? [branch]
          : [branch, ...[...tree.parent.keys()].filter((c) => tree.parent[c] === branch).flatMap((c) => below(c, branch))]
      const past: number[][] = [...tree.parent.keys()].map(() => [])
      const future: number[][] = [...tree.parent.keys()].map(() => [])
      for (const fork of causality.forks) {
        for (const [sweep, found] of [
          [forward, past],
          [backward, future],
        ] as const) {
          const seen: number[] = []
          sweep(
            causality,
            fork,
            (branch) => seen.push(...below(branch, fork)),
            (branch) => below(branch, fork).forEach((node) => found[node]!.push(...seen)),
          )
        }
      }
      const expected = before(tree)
      const sorted = (list: number[]) => list.toSorted((a, b) => a - b)
      expect(past.map(sorted)).toEqual(expected)
      expect(future.map(sorted)).toEqual(expected.map((_, u) => [...expected.keys()].filter((v) => expected[v]!.includes(u))))
    }
  })
})

describe('the next call', () => {
  test('is the earliest-starting of those that happened after', () => {
    for (const tree of trees) {
      const calls = [...tree.parent.keys()].filter(() => random(3) === 0)
      const happened = pairwise(tree)
      const expected = [...tree.parent.keys()].map((u) => {
        const after = calls.filter((v) => happened(u, v)).toSorted((a, b) => tree.start[a]! - tree.start[b]! || a - b)
        return after[0] ?? -1
      })
      expect([...nextAfter(causalityOf(tree), calls)]).toEqual(expected)
    }
  })
})

describe('the call that led to a span', () => {
  const ids = ['root', 'left', 'l1', 'l.tool', 'right', 'r1', 'r.tool', 'join', 'inner', 'late']
  const tree = treeOf([
    span('root', '', 0, 100),
    span('left', 'root', 0, 40),
    span('l1', 'left', 1, 10),
    span('l.tool', 'left', 25, 30),
    span('right', 'root', 5, 45),
    span('r1', 'right', 6, 20),
    span('r.tool', 'right', 21, 30),
    span('join', 'root', 50, 60),
    span('inner', 'join', 51, 55),
    span('late', 'root', 70, 71),
  ])
  const calls = ['l1', 'r1', 'join'].map((id) => ids.indexOf(id))
  const led = lastBefore(causalityOf(tree), calls)

  test.each([
    ['l.tool', 'l1', 'its own branch goes before a sibling whose call ended later'],
    ['r.tool', 'r1', ''],
    ['inner', 'join', 'it runs inside the call'],
    ['late', 'join', 'the last to end before it'],
    ['join', 'r1', 'both branches are over: the last to end'],
  ])('%s was led to by %s %s', (id, expected) => {
    expect(ids[led[ids.indexOf(id)]!]).toBe(expected)
  })

  test('is not there for the first call', () => {
    expect(led[ids.indexOf('l1')]).toBe(-1)
  })
})
