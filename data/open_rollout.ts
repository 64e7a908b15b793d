// A rollout that still gets spans: what is known of it, and when it is due to be closed.

import type { RawItem } from './span_batch.ts'
import type { Chain } from './span_memory.ts'

export interface Limits {
  /** All times in milliseconds. */
  readonly root_grace: number
  readonly idle_timeout: number
  readonly max_age: number
  readonly max_spans: number
  /** Of one rollout. */
  readonly max_bytes: number
}

export interface OpenRollout {
  readonly key: string
  readonly traces: Set<string>
  /** What arrived, or null once some of it was let go: then everything is read back. */
  held: Held | null
  bytes: number
  count: number
  first_at: number
  last_at: number
  /** A root span has ended. */
  rooted: boolean
  ended: boolean
  /** It was closed before: these are late spans. */
  late: boolean
  /** To be closed as soon as may be: nothing more is expected. */
  due: boolean
  /** Storage may know more of it than this process: some came before, or closing it was tried in vain. */
  doubtful: boolean
}

/** While a rollout is open, its items are chains in the memory of spans; one that is taken out has them in memory of its own. */
export interface Held {
  readonly items: readonly RawItem[]
  readonly chains: readonly Chain[]
}

/** One that is open. */
export interface Watched extends OpenRollout {
  key: string
  /** No earlier than that is it due by the clock alone. */
  look_at: number
  /** The OpenRollouts that have it; null when it is open no longer. */
  home: object | null
  /** Its place in the groups of the batch that is looked at. */
  group: number
}

export type ClosedBy = 'end' | 'root' | 'idle' | 'max_age' | 'max_spans' | 'max_bytes' | 'late'

/** Why it is to be closed now; null where it is not. */
export function due(rollout: OpenRollout, now: number, limits: Limits): ClosedBy | null {
  if (rollout.ended) return 'end'
  if (rollout.due) return 'late'
  if (rollout.count >= limits.max_spans) return 'max_spans'
  if (rollout.bytes >= limits.max_bytes) return 'max_bytes'
  if (rollout.late && now - rollout.last_at >= limits.root_grace) return 'late'
  if (rollout.rooted && now - rollout.last_at >= limits.root_grace) return 'root'
  if (now - rollout.last_at >= limits.idle_timeout) return 'idle'
  if (now - rollout.first_at >= limits.max_age) return 'max_age'
  return null
}

/** No earlier is it due by the clock alone. A root or a late span that has yet to come will wait for root_grace itself. */
export function notDueBefore({ rooted, late, first_at, last_at }: OpenRollout, now: number, limits: Limits): number {
  const grace = (rooted || late ? last_at : Math.max(last_at, now)) + limits.root_grace
  return Math.min(grace, last_at + limits.idle_timeout, first_at + limits.max_age)
}
