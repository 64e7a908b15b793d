import { expect, test } from 'vitest'

import { fixture } from '../../test/training.ts'
import { hasStrayed, importanceWeight } from './importance.ts'

const { trainer_old_logp, sampler_logp, new_logp, mask, expected } = fixture('08_importance_weights')

test('fixtures/rl/08: weights of tokens, cut at 2', () => {
  for (const [i, row] of trainer_old_logp.entries()) {
    for (const [t, old] of row.entries()) {
      if (mask[i][t] === 0) continue
      const { weight, whole } = importanceWeight(old, sampler_logp[i][t], 2)
      expect(whole).toBeCloseTo(expected.ratio[i][t], 9)
      expect(weight).toBeCloseTo(expected.tis_token_C2[i][t], 9)
    }
  }
})

test('a token of which the sampler said nothing counts as it is', () => {
  expect(importanceWeight(-3, NaN, 2)).toEqual({ weight: 1, whole: 1 })
})

test('fixtures/rl/08: bad answers that the policy would no longer give', () => {
  const { opsm_seq_kl, 'opsm_delta0.2_keep': keep } = expected
  for (const [i, row] of new_logp.entries()) {
    const length = mask[i].filter(Boolean).length
    expect(hasStrayed(row, sampler_logp[i], 0, length, opsm_seq_kl[i] - 1e-9)).toBe(true)
    expect(hasStrayed(row, sampler_logp[i], 0, length, opsm_seq_kl[i] + 1e-9)).toBe(false)
    // Only row 1 has a negative advantage.
    expect(i === 1 && hasStrayed(row, sampler_logp[i], 0, length, 0.2)).toBe(keep[i] === 0)
  }
})
