// What an algorithm is: options, what it needs, how it prepares a step, and a loss with its exact derivatives. Plain functions of
// numbers: no tensor, no model, no pipeline. The loop asks in this order, [N] being the scored tokens of all rows of a step:
//
//   samples = mergeTurns(turns, …)                        trainer/merge.ts
//   batch   = batchOf(samples, old, reference)            trainer/batch.ts; `old` may be null, see Batch
//   step    = objective.prepare(batch)                    advantages per token
//   for each update of updatesOf(step, n, random):        whole rollouts; denominators are taken over the update
//     for each part of partsOf(update, tokens):           micro-batches: the same numbers as the whole
//       learner.accumulate(part.samples, (scores) => toScoreGradients(objective.loss(part, scores)))
//     learner.step(rate)

import type { Floats, Sample, TurnSpan } from './row.ts'

/** Described as plain data, so that an extension can make its own schema of it. */
export type Option =
  | { readonly doc: string; readonly default: number; readonly min?: number; readonly max?: number; readonly integer?: boolean }
  | { readonly doc: string; readonly default: boolean }
  | { readonly doc: string; readonly default: string; readonly values: readonly string[] }
export type Options = Readonly<Record<string, Option>>
export type Values<O extends Options> = {
  readonly [K in keyof O]: O[K] extends { values: readonly (infer V)[] } ? V : O[K]['default'] extends number ? number : boolean
}

export interface Algorithm<O extends Options = Options> {
  readonly type: string
  readonly summary: string
  readonly options: O
  create(options: Values<O>): Objective
}

/** Keeps the options' own types. */
export const algorithm = <const O extends Options>(definition: Algorithm<O>): Algorithm<O> => definition

export interface Objective {
  /** Turns without it are no training data. From advantages: a group in which all are 0 has nothing to teach. */
  readonly learns_from: 'advantage' | 'return' | 'reward_outcome'
  /** Whether it weighs tokens by what the sampler said of them. Then turns whose log-probabilities cannot be right are refused. */
  readonly weighs: boolean
  /** Whether `prepare` reads `batch.old`. */
  readonly old: boolean
  /** Whether it reads `batch.reference`. */
  readonly reference: boolean
  readonly value_head: boolean
  /** Once per step, over everything that the step has. May leave rows out. */
  prepare(batch: Batch): Prepared
  /** Of an update or a part of one; parts add up. */
  loss(part: Prepared, scores: ScoresLike): Loss
}

/** policy/learning.ts Scores, or the same in double precision. */
export interface ScoresLike {
  readonly logprobs: Floats
  readonly entropies: Floats
  readonly values: Floats | null
}

export interface Batch {
  readonly samples: readonly Sample[]
  /** Every trained turn, row by row; places in [N]. */
  readonly turns: readonly TurnSpan[]
  /** [N] log-probabilities under the sampler; NaN where it gave none. */
  readonly sampler: Floats
  /** Under the weights at the step's start. null: the step has one update only, so they are the current ones; not for an objective with `old`. */
  readonly old: ScoresLike | null
  /** [N] log-probabilities under the reference weights. */
  readonly reference: Floats | null
}

export interface Prepared extends Batch {
  /** [N] */
  readonly advantages: Floats
  /** [N] what the value head is to say; null without one. */
  readonly returns: Floats | null
  readonly mean: Mean
  /** [N] what each token counts in the loss: the loss is the sum of scale · token loss. */
  readonly scale: Float64Array
}

/**
 * How tokens make one loss.
 * rollout: mean over rollouts of the mean over their tokens. token: mean over all tokens (DAPO). turn: mean over turns of the mean over their
 * tokens (GRPO). turn_sum: mean over turns of the sum over their tokens. constant: the same, divided by a constant length (Dr.GRPO).
 */
export type MeanOver = 'rollout' | 'token' | 'turn' | 'turn_sum' | 'constant'
export interface Mean {
  readonly over: MeanOver
  /** Tokens; only for `constant`. */
  readonly length: number
}

export interface Loss {
  readonly loss: number
  /** [N] derivatives of the loss. */
  readonly logprobs: Float64Array
  readonly entropies: Float64Array | null
  readonly values: Float64Array | null
  readonly tally: Tally
}

/** Sums over tokens, so that parts can be added: figuresOf (trainer/figures.ts) makes means of them. */
export interface Tally {
  readonly tokens: number
  readonly loss: number
  /** Of π_current / π_old, and the largest. */
  readonly ratio: number
  readonly ratio_max: number
  /** Tokens whose ratio the clip held back. */
  readonly clipped: number
  /** log π_old − log π_current: estimates how far the step has gone. */
  readonly kl: number
  readonly entropy: number
  /** Importance weights before they were cut, as used, squares of the latter, and how many were cut. */
  readonly weight: number
  readonly used: number
  readonly used_squared: number
  readonly truncated: number
  /** What only some algorithms have, summed over tokens: reference_kl, value_loss, masked … */
  readonly more: Readonly<Record<string, number>>
}
