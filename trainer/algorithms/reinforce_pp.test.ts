import { describe, expect, test } from 'vitest'

import { fixture, flat, prepare, scoresOf, turn, turnsOfRows } from '../../test/training.ts'
import { objectiveOf } from './index.ts'

describe('fixtures/rl/01: returns whitened over all tokens', () => {
  const settings = [
    ['reinforce_pp_token_adv', {}],
    ['reinforce_pp_gamma0.95_token_adv', { gamma: 0.95 }],
    ['reinforce_pp_baseline_token_adv', { baseline: 'group' }],
  ] as const
  test.each(fixture('01_outcome_advantages').cases.flatMap((c: any) => settings.map((setting) => [c.name, ...setting, c])) as any[])(
    '%s: %s',
    (_, name, options, { mask, rewards, expected }) => {
      const turns = turnsOfRows(mask, (row) => ({ return: rewards[row], advantage: expected.dr_grpo[row] }))
      const { advantages } = prepare(objectiveOf('reinforce_pp', options), turns, null)
      for (const [t, wanted] of flat(expected[name], mask).entries()) expect(advantages[t]).toBeCloseTo(wanted, 8)
    },
  )
})

test('the KL from the reference is a cost of each token, and of those before it', () => {
  const plain = objectiveOf('reinforce_pp', { kl_coefficient: 0.1 })
  const turns = [turn({ response_token_ids: [1, 2, 3], response_logprobs: [-1, -1, -1], return: 0 })]
  const { advantages } = prepare(plain, turns, scoresOf(Float64Array.of(-1, -1, -1)), Float64Array.of(-1, -2, -1))
  // Before whitening -0.1, -0.1 and 0.
  expect(advantages[0]).toBeCloseTo(advantages[1]!, 12)
  expect(advantages[2]).toBeGreaterThan(advantages[1]!)
})
