import { describe, expect, test } from 'vitest'

import { fixture, flat, prepare, scoresOf, turn } from '../../test/training.ts'
import { objectiveOf } from './index.ts'

describe('fixtures/rl/04', () => {
  const { values, mask, gamma, lambda, token_rewards, expected_adv_whitened, expected_returns } = fixture('04_gae').verl_masked

  /** Row 0 says 1, 1 then 4, 4, 4; row 1 says 3 and 2 tokens: an answer, what the environment says, an answer. */
  const turns = mask.flatMap((row: number[], i: number) => {
    const said = Array.from({ length: 8 }, (_, t) => 10 + t)
    const first = row.indexOf(0)
    const second = row.indexOf(1, first)
    const end = row.indexOf(0, second)
    const shared = { rollout_id: `r${i}`, response_logprobs: [] }
    const given = (t: number) => token_rewards[i][t] as number
    return [
      turn({ ...shared, prompt_token_ids: [1], response_token_ids: said.slice(0, first), reward_intermediate: given(first - 1) }),
      turn({
        ...shared,
        step: 1,
        prompt_token_ids: [1, ...said.slice(0, second)],
        response_token_ids: said.slice(second, end),
        return: given(end - 1),
      }),
    ].map((t) => ({ ...t, response_logprobs: Array.from(t.response_token_ids, () => -1) }))
  })

  test('advantages over the rewards of a rollout, whitened over the step; what the environment says is passed over', () => {
    const ppo = objectiveOf('ppo', { gamma, lambda })
    const step = prepare(ppo, turns, scoresOf(new Float64Array(flat(values, mask).length), flat(values, mask)))
    expect(step.samples).toHaveLength(2)
    for (const [t, wanted] of flat(expected_adv_whitened, mask).entries()) expect(step.advantages[t]).toBeCloseTo(wanted, 8)
    for (const [t, wanted] of flat(expected_returns, mask).entries()) expect(step.returns![t]).toBeCloseTo(wanted, 9)
  })
})

test('fixtures/rl/09: the value loss is clipped, and weighed by its coefficient', () => {
  const { vpred, v_old, returns, mask, expected } = fixture('09_value_entropy')
  const ppo = objectiveOf('ppo', { value_coefficient: 2, value_clip: 0.2, loss_mean: 'token' })
  const n = flat(mask, mask).length
  const turns = [turn({ response_token_ids: Array<number>(n).fill(5), response_logprobs: Array<number>(n).fill(-1) })]
  const old = scoresOf(new Float64Array(n).fill(-1), flat(v_old, mask))
  const step = { ...prepare(ppo, turns, old), advantages: new Float64Array(n), returns: flat(returns, mask) }
  const { loss, tally } = ppo.loss(step, scoresOf(new Float64Array(n).fill(-1), flat(vpred, mask)))
  expect(loss).toBeCloseTo(2 * expected['vf_loss_clip0.2'], 9)
  expect(tally.more.value_loss! / tally.tokens).toBeCloseTo(expected['vf_loss_clip0.2'], 9)
})
