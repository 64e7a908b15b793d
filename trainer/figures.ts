// What a step says of itself: tallies of its parts, added and divided.

import type { TrainingStep } from '../storage/training.ts'
import type { Tally } from './algorithm.ts'

export type Figures = Pick<
  TrainingStep,
  'loss' | 'kl' | 'entropy' | 'clip_fraction' | 'weight_mean' | 'weight_ess' | 'weight_truncated' | 'metrics'
>

/** Of all parts of all updates of a step. The loss is the mean over its updates. */
export function figuresOf(tallies: readonly Tally[], updates: number): Figures {
  const sum = (of: (tally: Tally) => number) => tallies.reduce((total, tally) => total + of(tally), 0)
  const tokens = sum((tally) => tally.tokens)
  const mean = (of: (tally: Tally) => number) => sum(of) / tokens
  const names = new Set(tallies.flatMap((tally) => Object.keys(tally.more)))
  return {
    loss: sum((tally) => tally.loss) / updates,
    kl: mean((tally) => tally.kl),
    entropy: mean((tally) => tally.entropy),
    clip_fraction: mean((tally) => tally.clipped),
    weight_mean: mean((tally) => tally.weight),
    weight_ess: sum((tally) => tally.used) ** 2 / (tokens * sum((tally) => tally.used_squared)),
    weight_truncated: mean((tally) => tally.truncated),
    metrics: {
      ratio_mean: mean((tally) => tally.ratio),
      ratio_max: Math.max(...tallies.map((tally) => tally.ratio_max)),
      ...Object.fromEntries([...names].map((name) => [name, mean((tally) => tally.more[name] ?? 0)])),
    },
  }
}
