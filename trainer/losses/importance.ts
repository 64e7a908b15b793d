// The sampler is never quite the policy that the trainer computes: other kernels, other precision, an older version. Truncated importance
// sampling (Yao et al. 2025; Ionides 2008) weighs each token by w = min(π_old/π_sampler, C), which is not differentiated.

import { ratioOf } from './clip.ts'

export interface Weight {
  readonly weight: number
  /** Before it was cut. */
  readonly whole: number
}

/** 1 where the sampler gave no log-probability. */
export function importanceWeight(logprob: number, sampler: number, cap: number): Weight {
  const whole = Number.isNaN(sampler) ? 1 : ratioOf(logprob, sampler)
  return { weight: Math.min(whole, cap), whole }
}

/**
 * DeepSeek-V3.2's off-policy mask, per turn: a bad answer (A < 0) that the current policy would hardly give teaches little and disturbs much.
 * Says whether the mean of log π_sampler − log π over the turn's tokens [from, to) is more than delta.
 */
export function hasStrayed(logprobs: ArrayLike<number>, sampler: ArrayLike<number>, from: number, to: number, delta: number): boolean {
  let sum = 0
  for (let t = from; t < to; t++) if (!Number.isNaN(sampler[t])) sum += sampler[t]! - logprobs[t]!
  return sum / (to - from) > delta
}
