// What stage A works on: the policy calls of one rollout in their causal order, and what was given for them.

import type { Causality } from '../data/causality.ts'

export interface Trajectory {
  readonly causality: Causality
  /** Node of each policy call in the span tree. The lists below go with it. */
  readonly calls: readonly number[]
  /** Rewards given between a call and its next; 0 where there are none. */
  readonly steps: readonly number[]
  /** What AIR's `bonus` gives; 0 in other modes. */
  readonly air: readonly number[]
  /** AIR's potential at the call; 0 in other modes. */
  readonly phi: readonly number[]
  readonly outcome: number
}

export interface MethodOptions {
  readonly gamma: number
  readonly lambda: number
  readonly include_steps: boolean
}

/** Gives every policy call its return. */
export type Method = (trajectory: Trajectory, options: MethodOptions) => number[]
