// PPO's clipped surrogate (Schulman et al. 2017, arXiv 1707.06347, eq. 7), to be minimised: max(−Aρ, −A·clip(ρ, 1−ε_low, 1+ε_high)).
// Dual clip (Ye et al. 2020, arXiv 1912.09729, eq. 5): where A < 0, at most −A·c, so that one unlikely token cannot outweigh all others.

export interface Clip {
  readonly clip_low: number
  readonly clip_high: number
  /** c; 0: none. */
  readonly dual_clip: number
}

export interface Surrogate {
  readonly loss: number
  /** Derivative by the current log-probability: 0 where a clip holds. */
  readonly slope: number
  /** π_current / π_old */
  readonly ratio: number
  readonly held: '' | 'clip' | 'dual_clip'
}

export function clippedLoss(logprob: number, old: number, advantage: number, { clip_low, clip_high, dual_clip }: Clip): Surrogate {
  const ratio = ratioOf(logprob, old)
  const free = -advantage * ratio
  const clipped = -advantage * Math.min(1 + clip_high, Math.max(1 - clip_low, ratio))
  const most = advantage < 0 && dual_clip > 0 ? -advantage * dual_clip : Infinity
  if (Math.max(free, clipped) > most) return { loss: most, slope: 0, ratio, held: 'dual_clip' }
  if (clipped > free) return { loss: clipped, slope: 0, ratio, held: 'clip' }
  return { loss: free, slope: free, ratio, held: '' }
}

/** π/π', from log-probabilities; cut where e^x would drown everything else. */
export const ratioOf = (logprob: number, other: number): number => Math.exp(Math.min(20, Math.max(-20, logprob - other)))
