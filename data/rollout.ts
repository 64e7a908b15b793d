// A rollout: one try of a task by an agent, as it travels through a `rollouts` pipeline.
// Field names are column names.

import type { AgentReading, CallReading, RewardReading, ToolReading } from './dialect.ts'
import type { RewardOptions } from './rewards.ts'
import type { SpanTree } from './tree.ts'

const ENDS = ['succeeded', 'failed', 'cancelled', 'timeout', 'limit'] as const
export type End = (typeof ENDS)[number]
/** '' where it has not ended. */
export type Status = End | ''
export const isEnd = (value: unknown): value is End => ENDS.includes(value as End)
export type AirClass = 'ok' | 'empty' | 'policy_error' | 'env_error'

export interface Rollout {
  readonly tenant: string
  readonly rollout_id: string
  readonly attempt_id: string
  readonly task_id: string
  readonly group_id: string
  /** 0 where nobody said. */
  readonly group_size: number
  readonly mode: 'train' | 'val'
  readonly status: Status
  /** Why it was closed. */
  readonly closed_by: 'end' | 'root' | 'idle' | 'max_age' | 'max_spans' | 'max_bytes' | 'shutdown' | 'late' | 'replay'
  /** False when it was closed without a root or an end. */
  readonly complete: boolean
  readonly revision: number
  /** Nanoseconds since the Unix epoch. */
  readonly started_at: bigint
  readonly ended_at: bigint
  /** Distinct spans and log records that this revision covers, and the newest arrival among them (ms since the epoch). */
  readonly spans: number
  readonly covered_until: number
  readonly trace_ids: readonly string[]
  /** Attributes by which a reward may name it: its session, response ids, and those that `join_keys` lists. */
  readonly keys?: readonly (readonly [name: string, value: string])[]
  /** Every span of the rollout by place; `node` of calls, tools and rewards points into it. */
  readonly tree: SpanTree

  readonly calls: readonly Call[]
  readonly tools: readonly Tool[]
  readonly rewards: readonly Reward[]
  /** Readings that could not be used, other than calls: counted by reason. */
  readonly problems: readonly Problem[]

  readonly air_mode: '' | 'potential' | 'bonus' | 'off'
  /** How its rewards make an outcome: set by `policy_calls`, for when more of them come. */
  readonly reward_options?: RewardOptions
  /** Set by `air`, as a share of the reward range: the most that the potential promises, or the cap of the bonus. */
  readonly air_weight?: number
  /** How group advantages are to be made; null until credit_assignment saw the rollout. */
  readonly credit: CreditSpec | null
  /** Set with `credit`; null where crediting it again takes its span tree. */
  readonly course?: Course | null
  /** Reward of the whole rollout; null where nobody gave one (never 0 by accident). */
  readonly outcome: number | null
  readonly transitions: readonly Transition[]
  readonly rejects: readonly Reject[]
}

/** When something happened. Causality is asked of data/causality.ts by `node`, since lists of predecessors would be quadratic. */
export interface Moment {
  readonly span_id: string
  readonly start_time: bigint
  readonly end_time: bigint
  /** Position of the span in the rollout's tree, see data/tree.ts; -1 for what has no span of its own. */
  readonly node: number
  /** True under an evaluator, judge or reward span. */
  readonly judged: boolean
  /** `agentlightning.span_sequence_id`, where it is given: orders spans whose clocks differ. */
  readonly sequence_id?: number | undefined
}

/** Where something stands in the run. */
export interface Place extends Moment {
  readonly parent_span_id: string
  readonly trace_id: string
  readonly dialect: string
  readonly scope: string
}

export interface Call extends Place, Omit<CallReading, 'kind'> {
  /** Response model, else request model. */
  readonly model: string
  /** Ids of the spans merged into this one. */
  readonly merged_span_ids: readonly string[]
  /** Rollout that the span itself names; calls of two rollouts are never merged. */
  readonly rollout_id?: string | undefined
}

export interface Tool extends Place, Omit<ToolReading, 'kind'> {
  /** No span of its own: known from a prompt or a request. */
  readonly inferred: boolean
  /** span_id of the call whose completion asked for it; '' where unknown. */
  readonly requested_by: string
  /** Set by `air`. */
  readonly air_class?: AirClass | undefined
  /** Why, in words. */
  readonly air_rule?: string | undefined
}

export interface Agent extends Place, Omit<AgentReading, 'kind'> {}

export interface Problem {
  readonly reason: string
  readonly span_id: string
  readonly detail: string
}

export interface Reward extends Place, RewardReading {
  /** The same each time the rollout is read. */
  readonly reward_id: string
  /** Node of the span or call that `target` names, where it is one of the rollout's. */
  readonly target_node?: number | undefined
  /** Milliseconds since the Unix epoch. */
  readonly given_at: number
}

/** What of a rollout's course its credit follows from. Rewards change none of it. Of each transition: */
export interface Course {
  /** Position of the one that followed it; -1 for none. */
  readonly next: readonly number[]
  /** AIR's potential or its bonus, by `air_mode`; empty in other modes. */
  readonly air: readonly number[]
}

/** How a rollout was credited, and how its group is to be. */
export interface CreditSpec {
  readonly method: string
  readonly gamma: number
  readonly lambda: number
  /** `auto`: over agents where two or more of them train, else over rollouts. */
  readonly baseline: 'auto' | Baseline
  readonly normalize: 'none' | 'std'
  /** Fewer scored rollouts than this give no advantage but 0. */
  readonly min_group: number
  /** Lowest and highest outcome; the lowest is what a rollout that ran into a limit gets. */
  readonly reward_range: readonly [number, number]
  /** Whether `identical`, `last` and `discounted` add step rewards to the outcome. */
  readonly include_steps: boolean
  /** What happened before what: by the span tree unless told. */
  readonly causality?: 'tree' | 'time'
  /** Whether a rollout has no part in its own baseline. */
  readonly leave_one_out?: boolean
  /** `group` unless told, `task`, or the name of an attribute. */
  readonly group_by?: string
  /** By status; credit/statuses.ts unless told. */
  readonly statuses?: Readonly<Record<string, StatusRule>>
}

/** What a rollout of a status counts as: what it was scored, the lowest reward, or nothing. */
export type StatusRule = 'as_scored' | 'lowest' | 'left_out'

export type Baseline = 'rollouts' | 'transitions' | 'agents' | 'none'

/** A policy call as training data. */
export interface Transition {
  /** Its position among the rollout's. */
  readonly step: number
  readonly span_id: string
  /** Step whose prompt and completion this prompt extends; -1 where it begins anew. */
  readonly parent_step: number
  readonly trace_id: string
  readonly policy: string
  readonly policy_version: number | null
  readonly agent: string
  readonly model: string
  readonly response_id: string
  readonly call: Call

  readonly reward_outcome: number | null
  readonly reward_intermediate: number | null
  readonly reward_parts: Readonly<Record<string, number>>
  readonly return: number | null
  readonly advantage: number | null
  /** How much it counts in training: 0 in validation, and where AIR found that an outage hides what it was worth. */
  readonly weight: number | null
  readonly credit_method: string
  readonly flags: readonly string[]
}

export interface Reject {
  readonly span_id: string
  readonly policy: string
  readonly reason: string
  readonly detail: string
}
