import { readFileSync } from 'node:fs'

import { describe, expect, test } from 'vitest'

import { causalityOf, nextAfter } from '../data/causality.ts'
import { pairwise } from '../test/pairwise.ts'
import { c, cases, grow } from '../test/potential_cases.ts'
import { span, treeOf } from '../test/random.ts'
import { gae_turn } from './gae_turn.ts'
import { potential } from './potential.ts'
import { nextOf } from './trajectory.ts'

describe.each(cases)('fixtures/rl/19: $name', ({ rollouts, expected, gamma, lambda }) => {
  test.each(rollouts.map((rollout, i) => ({ ...rollout, expected: expected[i]! })))('$rollout_id', (rollout) => {
    const { tree, causality, nodeOf, idOf } = grow(rollout)
    const calls = rollout.calls.map((call) => nodeOf(call.id))

    const happened = pairwise(tree)
    for (const call of rollout.calls) {
      const named = [...rollout.calls, ...rollout.tools].map(({ id }) => id)
      expect(named.filter((id) => happened(nodeOf(id), nodeOf(call.id))).toSorted()).toEqual(call.after.toSorted())
    }

    const tools = rollout.tools.map((tool) => ({ node: nodeOf(tool.id), key: tool.key, air_class: tool.class }))
    const phi = calls.map((node) => potential(causality, tools, c)[node]!)
    const next = calls.map((node) => idOf(nextAfter(causality, calls)[node]!))
    const steps = rollout.calls.map((call) => rollout.step_rewards[call.id] ?? 0)
    const air = calls.map(() => 0)
    const returns = gae_turn({ next: nextOf(causality, calls), steps, air, phi, outcome: rollout.outcome }, { gamma, lambda })

    for (const [i, { id }] of rollout.calls.entries()) {
      expect(phi[i]).toBeCloseTo(rollout.expected.phi[id]!, 9)
      expect(next[i]).toBe(rollout.expected.next[id])
      expect(returns[i]! - phi[i]!).toBeCloseTo(rollout.expected.gae[id]!, 9)
      expect(returns[i]).toBeCloseTo(rollout.expected.return[id]!, 9)
    }
  })
})

/** Calls one after the other, each with its reward. */
function chain(steps: number[], phi: number[]) {
  const calls = [...steps.keys()]
  const causality = causalityOf(treeOf(calls.map((i) => span(String(i), '', i * 10, i * 10 + 5))))
  return { next: nextOf(causality, calls), steps, air: steps.map(() => 0), phi, outcome: 0 }
}

describe('fixtures/rl/04, turn level', () => {
  const { turn_level } = JSON.parse(readFileSync('test/fixtures/rl/04_gae.json', 'utf8'))
  test.each([0, 1])('rollout %i', (r) => {
    const rewards: number[] = turn_level.turn_rewards[r]
    const returns = gae_turn(chain(rewards, turn_level.turn_values[r]), { gamma: turn_level.gamma, lambda: turn_level.lambda })
    returns.forEach((value, i) => expect(value).toBeCloseTo(turn_level.expected_returns[r][i], 9))
  })
})

describe('fixtures/rl/12', () => {
  const { pbrs, gae_turn_with_phi } = JSON.parse(readFileSync('test/fixtures/rl/12_shaping.json', 'utf8'))
  test.each<any>(gae_turn_with_phi.cases)('gae over turns, lambda $lambda, gamma $gamma', ({ lambda, gamma, adv }) => {
    const { phi, reward } = gae_turn_with_phi
    const returns = gae_turn(chain(reward, phi), { gamma, lambda })
    returns.forEach((value, i) => expect(value - phi[i]).toBeCloseTo(adv[i], 9))
  })

  test.each<any>(pbrs)('at lambda 1 gae is the shaped return, and the return is free of phi: $name, gamma $gamma', (shaped) => {
    const returns = gae_turn(chain(shaped.reward, shaped.phi), { gamma: shaped.gamma, lambda: 1 })
    returns.forEach((value, i) => {
      expect(value).toBeCloseTo(shaped.return_to_go[i], 9)
      expect(value - shaped.phi[i]).toBeCloseTo(shaped.shaped_return_to_go[i], 9)
    })
  })

  test.each<any>(gae_turn_with_phi.cases)(
    'gae with phi is gae without it on shaped rewards, lambda $lambda, gamma $gamma',
    ({ lambda, gamma, adv }) => {
      const { phi, reward } = gae_turn_with_phi
      const shaped = reward.map((r: number, i: number) => r + gamma * (phi[i + 1] ?? 0) - phi[i])
      const returns = gae_turn(
        chain(
          shaped,
          reward.map(() => 0),
        ),
        { gamma, lambda },
      )
      returns.forEach((value, i) => expect(value).toBeCloseTo(adv[i], 9))
    },
  )
})
