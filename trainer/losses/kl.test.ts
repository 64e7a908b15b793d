import { expect, test } from 'vitest'

import { fixture } from '../../test/training.ts'
import { k1, k2, k3, rhoK3 } from './kl.ts'

const { logp, ref_logp, expected, categorical } = fixture('05_kl')

test('fixtures/rl/05: k1, k2 and k3, cut at 10 nats', () => {
  for (const [i, logprob] of logp.entries()) {
    expect(k1(logprob, ref_logp[i])).toBeCloseTo(expected.k1[i], 9)
    expect(k2(logprob, ref_logp[i]).value).toBeCloseTo(expected.k2[i], 9)
    expect(k3(logprob, ref_logp[i]).value).toBeCloseTo(expected.k3_clamped[i], 9)
  }
})

const { p, q } = categorical as { p: number[]; q: number[] }

/** Of the expected estimate by the logits, samples held fixed: Σ_a p_a · slope_a · (δ_aj − p_j). */
function expectedGradient(slope: (logprob: number, reference: number) => number): number[] {
  const slopes = p.map((p_a, a) => slope(Math.log(p_a), Math.log(q[a]!)))
  const mean = slopes.reduce((sum, s, a) => sum + p[a]! * s, 0)
  return p.map((p_j, j) => p_j * (slopes[j]! - mean))
}

test.each([
  ['k1 in a loss has none at all', () => 1, 'grad_E_k1_as_loss'],
  ['k2 has that of the KL', (a: number, b: number) => k2(a, b).slope, 'grad_KL'],
  ['k3 has that of the KL the other way round', (a: number, b: number) => k3(a, b).slope, 'grad_forward_KL'],
  ['ρ·k3 has that of the KL', (a: number, b: number) => rhoK3(a, b, 1).slope, 'grad_KL'],
])('fixtures/rl/05, expected gradients: %s', (_, slope, name) => {
  for (const [j, value] of expectedGradient(slope).entries()) expect(value).toBeCloseTo(categorical[name][j], 9)
})
