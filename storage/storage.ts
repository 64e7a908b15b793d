// What the clickhouse_storage extension offers to the components: the only door to ClickHouse.

import type { ClickHouseClient } from '@clickhouse/client'

import type { Reward, Rollout } from '../data/rollout.ts'
import type { RawItem, SpanBatch } from '../data/span_batch.ts'
import type { Run, SpanMemory } from '../data/span_memory.ts'

/** Which rollout a trace belongs to. */
export interface Member {
  readonly trace_id: string
  readonly rollout_id: string
  readonly attempt_id: string
}

/** A trace that holds spans which no committed revision covers. */
export interface Uncovered {
  readonly trace_id: string
  /** Distinct hints (`rollout_id` + '\u0000' + `attempt_id`) on its spans. */
  readonly hints: readonly string[]
  readonly first_received_at: number
  readonly last_received_at: number
}

export interface Size {
  readonly items: number
  readonly bytes: number
}

/** Which items of some traces are wanted: those of these rollouts (and those that name none), the first so many of them by trace and time. */
export interface Wanted {
  readonly keys?: readonly string[]
  readonly most?: Size
}

export interface RolloutKey {
  readonly rollout_id: string
  readonly attempt_id: string
}

/** One that is stored. */
export interface KnownRollout extends RolloutKey {
  /** Where it is known; '' for one on its own. */
  readonly group_id?: string | undefined
}

/** Rewards about a rollout that is stored, and the raw items that gave them. */
export interface LateReward extends Member, KnownRollout {
  readonly rewards: readonly Reward[]
  readonly items: number
  /** Milliseconds since the epoch. */
  readonly received_at: number
}

/** Item i of a batch. */
export interface Place {
  readonly batch: SpanBatch
  readonly i: number
}

/** What became of some batches. */
export interface Stored {
  /** What never will be stored: it stands in `rejects`. */
  readonly refused: readonly Place[]
  /** The rows that were made of each batch. */
  readonly rows: readonly (readonly Run[])[]
}

export interface Storage {
  readonly client: ClickHouseClient
  /** Stores raw spans and log records. Calls are grouped into flushes; resolves when this one's rows are stored. `hints[i][j]`: rollout hint of item j of batch i, '' for none; an empty list where none of a batch has any. */
  insertSpans(batches: readonly SpanBatch[], hints: readonly (readonly string[])[]): Promise<Stored>
  /** Where rows of spans are on their way to be stored. So many bytes more of the latest stay there: whoever asks for it shares it with the others. */
  holdSpans(bytes: number): SpanMemory
  /** Raw items of these traces, each (trace_id, span_id) once, by start time. */
  readItems(traceIds: readonly string[], wanted?: Wanted): Promise<RawItem[]>
  /** How much of these traces names each rollout, or none (''), what was stored twice included. */
  sizesOf(traceIds: readonly string[]): Promise<(Size & { readonly trace_id: string; readonly key: string })[]>
  /**
   * Rollouts already assembled from any of these traces, and every trace that belongs to them. Several that name themselves may share a trace:
   * the last one told has what names none.
   */
  members(traceIds: readonly string[]): Promise<Member[]>
  tracesOf(rollouts: readonly { rollout_id: string; attempt_id: string }[]): Promise<Member[]>
  /** The newest rollout of each key that a reward may name it by (data/stray_rewards.ts), where there is one. */
  findTargets(keys: readonly string[]): Promise<Map<string, KnownRollout>>
  /** Has these traces belong to rollouts from now on. */
  join(members: readonly Member[]): Promise<void>
  /** Highest revision number ever used for each, committed or not; key `rollout_id` + '\u0000' + `attempt_id`. */
  lastRevisions(rollouts: readonly { rollout_id: string; attempt_id: string }[]): Promise<Map<string, number>>
  /** Those whose live revision was closed for its size: nothing more is taken into them. By key as above. */
  closedBySize(rollouts: readonly { rollout_id: string; attempt_id: string }[]): Promise<Set<string>>
  /** Traces with spans that no committed revision covers: what a restart resumes. */
  uncovered(): Promise<Uncovered[]>
  /** Items that the live revision covers, by key as above, of those of the rollouts whose spans may have expired in part. */
  coveredByOld(rollouts: readonly { rollout_id: string; attempt_id: string }[]): Promise<Map<string, number>>
  /**
   * Credits rollouts that are stored by rewards that came after them, and their groups. Resolves with those that only a new revision
   * can take in.
   * @param arrived those of them that are stored, where that is not known yet: what they need is read meanwhile, and nothing is written before
   */
  creditLate(late: readonly LateReward[], arrived?: Promise<readonly LateReward[]>): Promise<LateReward[]>
  /** Credits a rollout by rewards that came for it when it could take in nothing else any more. */
  addRewards(rollout: Pick<Rollout, 'rollout_id' | 'attempt_id' | 'covered_until'>, rewards: readonly Reward[]): Promise<void>
  /**
   * Writes the rollouts' transitions in one block. Not visible before `commit`, which writes all else. May be repeated after `abort`.
   * A call that ClickHouse refuses for good becomes a reject.
   */
  writeRevision(rollouts: readonly Rollout[], abort?: AbortSignal): Promise<void>
  /** Makes revisions live and has the advantages of the groups concerned computed. Resolves with those that ClickHouse refuses for good. */
  commit(rollouts: readonly Rollout[]): Promise<readonly RolloutKey[]>
  /** The same for many, some at a time: those that were added need not be held any more. */
  openCommit(): Commit
}

export interface Commit {
  add(rollouts: readonly Rollout[]): Promise<void>
  done(): Promise<readonly RolloutKey[]>
}

/** Not now: ClickHouse is away, or busy beyond patience. Nothing was lost; the same call may be made again. */
export class Unavailable extends Error {
  override name = 'Unavailable'
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs = 1_000, options?: ErrorOptions) {
    super(message, options)
    this.retryAfterMs = retryAfterMs
  }
}
