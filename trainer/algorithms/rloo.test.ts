import { describe, expect, test } from 'vitest'

import { fixture, prepare, scoresOf, turn, turnsOfRows } from '../../test/training.ts'
import { objectiveOf } from './index.ts'

describe('fixtures/rl/01', () => {
  test.each<any>(fixture('01_outcome_advantages').cases)('$name: the others’ mean is the baseline; one alone has none', (c) => {
    const turns = turnsOfRows(c.mask, (row) => ({ group_id: c.group[row], return: c.rewards[row] }))
    const { advantages, turns: spans } = prepare(objectiveOf('rloo'), turns, null)
    for (const [row, { from }] of spans.entries()) expect(advantages[from]).toBeCloseTo(c.expected.rloo_singleton0[row], 9)
  })
})

test('the KL from the reference is taken from the return before the baseline is', () => {
  const turns = [1, 0].map((value, i) => turn({ rollout_id: `r${i}`, return: value }))
  const { advantages } = prepare(
    objectiveOf('rloo', { kl_coefficient: 0.1 }),
    turns,
    scoresOf(Float64Array.of(-1, -1, -1, -1)),
    Float64Array.of(-2, -3, -1, -1),
  )
  // Of the first 1 + 2 nats: 1 - 0.3 against 0.
  for (const [t, wanted] of [0.7, 0.7, -0.7, -0.7].entries()) expect(advantages[t]).toBeCloseTo(wanted, 12)
})

test('the derivative is that of the log-probability, by weight and advantage', () => {
  const rloo = objectiveOf('rloo', { loss_mean: 'turn_sum' })
  const turns = [1, 0].map((value, i) => turn({ rollout_id: `r${i}`, return: value, response_logprobs: [-1, -3] }))
  const { logprobs, tally } = rloo.loss(prepare(rloo, turns, null), scoresOf(Float64Array.of(-1, -1, -1.5, -3)))
  for (const [t, wanted] of [-0.5, -1, Math.exp(-0.5) / 2, 0.5].entries()) expect(logprobs[t]).toBeCloseTo(wanted, 12)
  expect(tally).toMatchObject({ tokens: 4, truncated: 1, clipped: 0, ratio: 4 })
})
