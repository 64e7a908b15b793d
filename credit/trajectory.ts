// What stage A works on: the policy calls of one rollout in their causal order, and what was given for them.

import { nextAfter, type Causality } from '../data/causality.ts'

/** What methods ask that need to know only which call follows which. All lists are by policy call. */
export interface Chain {
  /** Position of the earliest-starting call that happened after; -1 where none did. */
  readonly next: readonly number[]
  /** Rewards given between a call and its next; 0 where there are none. */
  readonly steps: readonly number[]
  /** What AIR's `bonus` gives; 0 in other modes. */
  readonly air: readonly number[]
  /** AIR's potential at the call; 0 in other modes. */
  readonly phi: readonly number[]
  readonly outcome: number
}

/** And where the calls stand in the span tree, for those that compare any two of them. */
export interface Trajectory extends Chain {
  readonly causality: Causality
  /** Node of each policy call. */
  readonly calls: readonly number[]
}

/** @returns the position of each call's next among the calls */
export function nextOf(causality: Causality, calls: readonly number[]): number[] {
  const next = nextAfter(causality, calls)
  const position = new Map(calls.map((node, i) => [node, i]))
  return calls.map((node) => position.get(next[node]!) ?? -1)
}

export interface MethodOptions {
  readonly gamma: number
  readonly lambda: number
  readonly include_steps: boolean
}

/** Gives every policy call its return. */
export type Method = (trajectory: Trajectory, options: MethodOptions) => number[]
export type ChainMethod = (chain: Chain, options: MethodOptions) => number[]
