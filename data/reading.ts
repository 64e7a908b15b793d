// From the spans and log records of one rollout to calls, tools, agents and rewards.

import type { Dialect } from './dialect.ts'
import type { Agent, Call, Problem, Reward, Tool } from './rollout.ts'
import type { Item } from './span.ts'
import type { SpanTree } from './tree.ts'

export interface ReadResult {
  /** By start time. */
  readonly calls: readonly Call[]
  readonly tools: readonly Tool[]
  readonly agents: readonly Agent[]
  /** In the order in which they were given. */
  readonly rewards: readonly Reward[]
  readonly tree: SpanTree
  readonly problems: readonly Problem[]
  /** Model calls that were another record of a call already counted. */
  readonly duplicates: number
  /** Spans and groups of log records that some dialect understood, and their traces. */
  readonly spans: number
  readonly traces: number
}

export function readItems(_items: readonly Item[], _dialects: readonly Dialect[]): ReadResult {
  throw new Error('not written yet')
}
