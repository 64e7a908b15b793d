// What every algorithm counts alike, token by token.

import type { Tally } from '../algorithm.ts'
import type { Surrogate } from './clip.ts'
import type { Weight } from './importance.ts'

type Counted = { -readonly [K in keyof Tally]: Tally[K] extends number ? number : Record<string, number> }

export interface Token {
  readonly old: number
  readonly logprob: number
  readonly entropy: number
  readonly policy: Pick<Surrogate, 'ratio' | 'held'>
  readonly importance: Weight
}

export const startTally = (): Counted => ({
  tokens: 0,
  loss: 0,
  ratio: 0,
  ratio_max: 0,
  clipped: 0,
  kl: 0,
  entropy: 0,
  weight: 0,
  used: 0,
  used_squared: 0,
  truncated: 0,
  more: {},
})

export function count(tally: Counted, { old, logprob, entropy, policy, importance }: Token): void {
  tally.tokens++
  tally.kl += old - logprob
  tally.entropy += entropy
  tally.ratio += policy.ratio
  tally.ratio_max = Math.max(tally.ratio_max, policy.ratio)
  if (policy.held === 'clip') tally.clipped++
  if (policy.held === 'dual_clip') countMore(tally, 'dual_clip_fraction', 1)
  tally.weight += importance.whole
  tally.used += importance.weight
  tally.used_squared += importance.weight ** 2
  if (importance.whole > importance.weight) tally.truncated++
}

/** Something that only this algorithm counts; figures show its mean over tokens. */
export function countMore(tally: Counted, name: string, amount: number): void {
  tally.more[name] = (tally.more[name] ?? 0) + amount
}
