// What the trainer learns from: turns as they come from storage, and samples, the sequences that turns become. Types only.

import type { Row } from '../policy/learning.ts'
import type { TrainingTransition } from '../storage/training.ts'

/** Numbers of a model are single precision; what is computed from them is double. */
export type Floats = Float32Array | Float64Array

/** What the trainer reads of a policy call. */
export type Turn = Pick<
  TrainingTransition,
  | ('rollout_id' | 'attempt_id' | 'step' | 'group_id' | 'agent' | 'policy_version')
  | ('prompt_token_ids' | 'response_token_ids' | 'response_logprobs' | 'token_source' | 'params' | 'finish_reason')
  | ('reward_outcome' | 'reward_intermediate' | 'return' | 'advantage' | 'weight')
>

/** Where a turn's response stands: [from, to). */
export interface TurnSpan {
  readonly turn: Turn
  readonly from: number
  readonly to: number
}

/** A row for the learner: one turn, or several that extend each other. Only what the policy wrote in them is scored. */
export interface Sample extends Row {
  /** In order; places among the scored tokens of this row, [n]. Turns that nothing is learned from have none. */
  readonly turns: readonly TurnSpan[]
  /** [n] log-probability of each scored token when it was sampled; NaN where the sampler gave none. */
  readonly sampler: Float64Array
}
