// What the trainer learns from: turns as they come from storage, and samples, the sequences that turns become. Types only.

import type { Row } from '../policy/learning.ts'

/** Numbers of a model are single precision; what is computed from them is double. */
export type Floats = Float32Array | Float64Array

/** A policy call. Fields are columns of the view `transitions_full`; `params` is read from its JSON. */
export interface Turn {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly step: number
  readonly group_id: string
  readonly agent: string
  readonly policy_version: number | null
  /** The whole prompt. */
  readonly prompt_token_ids: ArrayLike<number>
  readonly response_token_ids: ArrayLike<number>
  /** Of the sampler; empty where it gave none. */
  readonly response_logprobs: ArrayLike<number>
  /** engine: ids and log-probabilities are those of the distribution that was sampled from. retokenized: ids made from the text afterwards. */
  readonly token_source: 'engine' | 'attribute' | 'raw_body' | 'retokenized' | 'none'
  readonly params: Readonly<Record<string, unknown>>
  readonly finish_reason: string
  readonly reward_outcome: number | null
  readonly reward_intermediate: number | null
  readonly return: number | null
  readonly advantage: number | null
  /** 0: nothing is learned from it. */
  readonly weight: number | null
}

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
