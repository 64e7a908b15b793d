import { describe, expect, test } from 'vitest'

import { fixture, flat, prepare, scoresOf, turn, turnsOfRows } from '../../test/training.ts'
import { objectiveOf } from './index.ts'

const unweighed = { weight_cap: 1e9 }

describe('fixtures/rl/06: clip, dual clip, means, derivatives', () => {
  const { old_logp, new_logp, adv, mask, cases } = fixture('06_ppo_clip')
  const [old, current] = [scoresOf(flat(old_logp, mask)), scoresOf(flat(new_logp, mask))]

  /** Of the fixture's means, ours; and what ours must be multiplied by. */
  const means = [
    ['token-mean', { loss_mean: 'token' }, 1],
    ['seq-mean-token-mean', { loss_mean: 'turn' }, 1],
    ['seq-mean-token-mean', { loss_mean: 'rollout' }, 1],
    ['seq-mean-token-sum', { loss_mean: 'turn_sum' }, 1],
    // Divides by the length alone; ours, as in Dr.GRPO, by the number of answers too.
    ['seq-mean-token-sum-norm', { loss_mean: 'constant', max_response_tokens: 5 }, 3],
  ] as const

  test.each(cases.flatMap((c: any) => means.map((mean) => [c.clip_high, c.dual_clip_c, ...mean, c.expected] as const)) as any[])(
    'clip_high %f, dual_clip %f: %s as %j',
    (clip_high, dual_clip, name, mean, factor, expected) => {
      const grpo = objectiveOf('grpo', { clip_low: 0.2, clip_high, dual_clip, ...mean })
      const turns = turnsOfRows(mask, (row) => ({ advantage: adv[row][0] }), old_logp)
      const { loss, logprobs } = grpo.loss(prepare(grpo, turns, old), current)
      // Its reference divides by each answer's length + 1e-8.
      const digits = name === 'seq-mean-token-mean' ? 8 : 9
      expect(loss * factor).toBeCloseTo(expected[`loss_${name}`], digits)
      for (const [t, wanted] of flat(expected[`grad_logp_${name}`], mask).entries())
        expect(logprobs[t]! * factor).toBeCloseTo(wanted, digits)
    },
  )

  test.each(cases as any[])('figures at clip_high $clip_high, dual_clip $dual_clip_c', ({ clip_high, dual_clip_c, expected }) => {
    const grpo = objectiveOf('grpo', { clip_high, dual_clip: dual_clip_c })
    const { tally } = grpo.loss(
      prepare(
        grpo,
        turnsOfRows(mask, (row) => ({ advantage: adv[row][0] }), old_logp),
        old,
      ),
      current,
    )
    expect(tally.clipped / tally.tokens).toBeCloseTo(expected.clipfrac, 8)
    expect((tally.more.dual_clip_fraction ?? 0) / tally.tokens).toBeCloseTo(expected.clipfrac_lower, 8)
    expect(tally.kl / tally.tokens).toBeCloseTo(expected.ppo_kl, 8)
    expect(tally.ratio_max).toBeCloseTo(Math.max(...flat(expected.ratio, mask)), 9)
  })

  test('without a dual clip', () => {
    const grpo = objectiveOf('grpo', { clip_high: 0.28, dual_clip: 0, loss_mean: 'token' })
    const step = prepare(
      grpo,
      turnsOfRows(mask, (row) => ({ advantage: adv[row][0] }), old_logp),
      old,
    )
    expect(grpo.loss(step, current).loss).toBeCloseTo(fixture('06_ppo_clip')['no_dual_clip_0.2_0.28']['loss_token-mean'], 9)
  })
})

test('fixtures/rl/08: weights of trainer against sampler, cut at 2', () => {
  const { trainer_old_logp, sampler_logp, new_logp, adv, mask, expected } = fixture('08_importance_weights')
  const grpo = objectiveOf('grpo', { clip_low: 0.2, clip_high: 0.28, loss_mean: 'token' })
  const turns = turnsOfRows(mask, (row) => ({ advantage: adv[row][0] }), sampler_logp)
  const { loss, tally } = grpo.loss(prepare(grpo, turns, scoresOf(flat(trainer_old_logp, mask))), scoresOf(flat(new_logp, mask)))
  expect(loss).toBeCloseTo(expected.loss_ppo_clip_token_mean_with_tis_token_C2, 9)
  expect(tally.weight / tally.tokens).toBeCloseTo(expected.tis_token_C2_metrics.rollout_is_mean, 8)
  expect(tally.truncated / tally.tokens).toBeCloseTo(expected.tis_token_C2_metrics.rollout_is_ratio_fraction_high, 8)
})

describe('fixtures/rl/03', () => {
  const { rows, mask, old_logp, new_logp, clip_low, clip_high, clip_c, expected } = fixture('03_lightningrl_levels')
  const turns = rows.map((row: any, i: number) =>
    turn({
      rollout_id: row.rollout,
      group_id: row.task,
      step: row.turn,
      agent: row.agent,
      prompt_token_ids: [i],
      response_token_ids: Array<number>(row.tokens).fill(5),
      response_logprobs: [...flat([old_logp[i]], [mask[i]])],
      advantage: expected.rollout_level_grpo[i],
    }),
  )

  test('the mean over rollouts is per_rollout_mean with rollouts in place of rows', () => {
    const grpo = objectiveOf('grpo', { clip_low, clip_high, dual_clip: clip_c })
    const { loss } = grpo.loss(prepare(grpo, turns, scoresOf(flat(old_logp, mask))), scoresOf(flat(new_logp, mask)))
    const rollouts = new Set(rows.map((row: any) => row.rollout)).size
    expect((loss * rollouts) / rows.length).toBeCloseTo(expected.per_rollout_mean_loss, 9)
  })
})

test('fixtures/rl/10: overlong answers lose return, and the group its mean of that', () => {
  const grpo = objectiveOf('grpo', { max_response_tokens: 10, overlong_buffer: 4 })
  const lengths = [2, 8, 12]
  const turns = lengths.map((length, i) => {
    const response = Array<number>(length).fill(5)
    return turn({ rollout_id: `r${i}`, response_token_ids: response, response_logprobs: response.map(() => -1), advantage: 0.1 })
  })
  const { advantages, turns: spans } = prepare(grpo, turns, null)
  // Penalties 0, -0.5 and -1: mean -0.5.
  for (const [i, wanted] of [0.6, 0.1, -0.4].entries()) expect(advantages[spans[i]!.from]).toBeCloseTo(wanted, 12)
})

test('bad answers that the policy would no longer give are left out, good ones never', () => {
  const grpo = objectiveOf('grpo', { off_policy_delta: 0.5 })
  const turns = [0.3, -0.3, -0.3].map((advantage, i) => turn({ rollout_id: `r${i}`, advantage, response_logprobs: [-1, -1] }))
  const { logprobs } = grpo.loss(prepare(grpo, turns, null), scoresOf(Float64Array.of(-2, -2, -2, -2, -1.2, -1.2)))
  expect([...logprobs].map(Math.sign)).toEqual([-1, -1, 0, 0, 1, 1])
})

test.each(['k2', 'rho_k3'])('a KL in the loss pulls towards the reference: %s', (kl_estimator) => {
  const grpo = objectiveOf('grpo', { kl_coefficient: 0.1, kl_estimator, ...unweighed })
  const turns = [turn({ advantage: 0 })]
  const { logprobs, tally } = grpo.loss(prepare(grpo, turns, null, Float64Array.of(-2, -0.5)), scoresOf(Float64Array.of(-1, -1)))
  expect(Math.sign(logprobs[0]!)).toBe(1)
  expect(tally.more.reference_kl).toBeGreaterThan(0)
})
