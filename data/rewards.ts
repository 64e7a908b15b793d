// Which of a rollout's rewards is its outcome, and which belong to single calls.

import type { Call, Problem, Reward } from './rollout.ts'
import type { SpanTree } from './tree.ts'

export interface StepReward {
  readonly intermediate: number | null
  readonly parts: Readonly<Record<string, number>>
}

export interface Outcome {
  readonly outcome: number | null
  /** Other dimensions of the outcome. */
  readonly parts: Readonly<Record<string, number>>
  /** By span_id of the call. */
  readonly steps: ReadonlyMap<string, StepReward>
  readonly problems: readonly Problem[]
}

/** @param primary name of the dimension that counts, where several are given and none says it is the primary one */
export function outcome(_rewards: readonly Reward[], _calls: readonly Call[], _tree: SpanTree, _primary?: string): Outcome {
  throw new Error('not written yet')
}
