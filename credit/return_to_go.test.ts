import { describe, expect, test } from 'vitest'

import { causalityOf } from '../data/causality.ts'
import type { SpanTree } from '../data/tree.ts'
import { pairwise } from '../test/pairwise.ts'
import { randomSpans, seeded, span, treeOf } from '../test/random.ts'
import { spanTree } from '../test/span_tree.ts'
import { discounted } from './discounted.ts'
import { identical } from './identical.ts'
import { last } from './last.ts'
import { return_to_go } from './return_to_go.ts'
import { inTimeOrder } from './time_order.ts'
import { nextOf } from './trajectory.ts'

describe('fixtures/rl/13', () => {
  const { tree, ids, trained: calls, reward_events, expected } = spanTree
  const trained = calls.map((node) => ids[node]!)
  type RewardEvent = (typeof reward_events)[number]
  const given = (source: string, on: (event: RewardEvent) => string | null) =>
    trained.map((id) => sum(reward_events.filter((e) => e.source === source && on(e) === id)))
  const sum = (events: readonly RewardEvent[]) => events.reduce((total, e) => total + e.value, 0)
  const causality = causalityOf(tree)
  const trajectory = {
    causality,
    calls,
    next: nextOf(causality, calls),
    // The judge's reward sits on branch B, whose last call is b1.
    steps: given('judge', () => 'b1'),
    air: given('air', (e) => e.caused_by),
    phi: trained.map(() => 0),
    outcome: 1,
  }
  const byId = (returns: number[]) => Object.fromEntries(trained.map((id, i) => [id, Number(returns[i]!.toFixed(9))]))

  test.each([
    [1, 'causal_return_to_go_gamma1.0'],
    [0.9, 'causal_return_to_go_gamma0.9'],
  ] as const)('causal return to go, gamma %f', (gamma, key) => {
    const returns = return_to_go(trajectory, { gamma })
    trained.forEach((id, i) => expect(returns[i], id).toBeCloseTo(expected[key][id]!, 9))
  })

  test('a discounted outcome counts the decisions to the end', () => {
    const bare = { ...trajectory, steps: trained.map(() => 0), air: trained.map(() => 0) }
    const depths = Object.fromEntries(trained.map((id) => [id, 0.5 ** expected.depth_to_terminal[id]!]))
    expect(byId(discounted(bare, { gamma: 0.5, include_steps: false }))).toEqual(depths)
  })

  test('in order of time', () => {
    const returns = return_to_go(inTimeOrder(trajectory), { gamma: 1 })
    trained.forEach((id, i) => expect(returns[i], id).toBeCloseTo(expected['time_ordered_return_to_go_gamma1.0'][id]!, 9))
  })

  test('last gives the outcome to the call that nothing follows', () => {
    const bare = { ...trajectory, air: trained.map(() => 0) }
    expect(byId(last(bare, { include_steps: false }))).toEqual({ w: 0, rw: 0, a1: 0, a2: 0, b1: 0, ans: 1 })
    expect(byId(last(bare, { include_steps: true }))).toMatchObject({ b1: 0.2, ans: 1 })
  })

  test('identical gives the outcome to all, or the sum of everything', () => {
    const bare = { ...trajectory, air: trained.map(() => 0) }
    expect(byId(identical(bare, { include_steps: false }))).toEqual(expected.identical_terminal)
    expect(byId(identical(trajectory, { include_steps: true }))).toEqual(expected.identical_sum)
  })
})

test.each([
  [1, [1, 1, 1]],
  [0.5, [0.25, 0.5, 1]],
  [0, [0, 0, 1]],
])('gamma %f discounts an outcome of 1 over three calls to %j', (gamma, returns) => {
  const causality = causalityOf(treeOf([0, 1, 2].map((i) => span(String(i), '', i * 10, i * 10 + 5))))
  const trajectory = { causality, calls: [0, 1, 2], steps: [0, 0, 0], air: [0, 0, 0], phi: [0, 0, 0], outcome: 1 }
  expect(discounted(trajectory, { gamma, include_steps: false })).toEqual(returns)
})

test('a discounted call keeps its own step reward only when asked for', () => {
  const causality = causalityOf(treeOf([span('a', '', 0, 5), span('b', '', 10, 15)]))
  const trajectory = { causality, calls: [0, 1], steps: [0.1, 0], air: [0, 0], phi: [0, 0], outcome: 1 }
  expect(discounted(trajectory, { gamma: 0.5, include_steps: true })).toEqual([0.6, 1])
  expect(discounted(trajectory, { gamma: 0.5, include_steps: false })).toEqual([0.5, 1])
})

/** The sum as it is defined: every reward against every call, with the longest chain between them. */
function pairwiseReturns(tree: SpanTree, calls: number[], given: number[], outcome: number, gamma: number): number[] {
  const happened = pairwise(tree)
  const chainTo = (from: number, reached: number[]): number =>
    Math.max(0, ...reached.filter((call) => happened(from, call)).map((call) => 1 + chainTo(call, reached)))
  return calls.map((t) => {
    const rewards = calls.map((call, i) => {
      if (call === t) return given[i]!
      if (!happened(t, call)) return 0
      return (
        given[i]! *
        gamma **
          chainTo(
            t,
            calls.filter((c) => c === call || happened(c, call)),
          )
      )
    })
    return rewards.reduce((a, b) => a + b, 0) + outcome * gamma ** chainTo(t, calls)
  })
}

/** Some of the spans, none inside another. */
function callsOf(tree: SpanTree, random: (n: number) => number): number[] {
  const picked = new Set([...tree.parent.keys()].filter(() => random(2) === 0))
  return [...picked].filter((node) => {
    for (let n = tree.parent[node]!; n !== -1; n = tree.parent[n]!) if (picked.has(n)) return false
    return true
  })
}

test('two passes over the tree find the same as the longest chain between every call and every reward', () => {
  const random = seeded(11)
  for (let i = 0; i < 400; i++) {
    const tree = treeOf(randomSpans(random, 1 + random(14), 20 + random(60)))
    const calls = callsOf(tree, random)
    const steps = calls.map(() => (random(2) ? random(10) / 10 : 0))
    const trajectory = { causality: causalityOf(tree), calls, steps, air: calls.map(() => 0), phi: calls.map(() => 0), outcome: 1 }
    for (const gamma of [1, 0.7]) {
      const expected = pairwiseReturns(tree, calls, steps, 1, gamma)
      return_to_go(trajectory, { gamma }).forEach((value, c) => expect(value, `run ${i}, gamma ${gamma}`).toBeCloseTo(expected[c]!, 9))
    }
  }
})
