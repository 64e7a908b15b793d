// What was stored is added to the rollouts that are open. Here it is decided which rollout each item belongs to.

import { steadyNow } from '../data/clock.ts'
import { linkedTraces } from '../data/links.ts'
import { END_EVENT } from '../data/notes.ts'
import type { OpenRollouts } from '../data/open_rollouts.ts'
import { placeOf } from '../data/routing.ts'
import { attribute } from '../data/scan.ts'
import { endTime, isRoot, itemName, scope, startTime, traceIds, type SpanBatch } from '../data/span_batch.ts'
import { mayBeStray } from '../data/stray_rewards.ts'
import type { TraceOwners } from '../data/trace_owners.ts'
import type { LateRewards } from './late_rewards.ts'

/** What a process that assembles rollouts keeps in memory. */
export interface Books {
  readonly open: OpenRollouts
  readonly owners: TraceOwners
  readonly late: LateRewards
}

export interface Arrived {
  readonly batch: SpanBatch
  readonly hints: readonly string[]
  /** Whether item i is: what was refused for good belongs nowhere. */
  readonly isStored: (i: number) => boolean
}

/**
 * @param homeless is told of an item that belongs nowhere, having neither hint nor trace
 * @returns whether something is to be done about these rollouts at once
 */
export function addArrived(books: Books, arrived: Arrived, homeless: (signal: string) => void): boolean {
  const { batch, hints } = arrived
  const { open, late } = books
  const now = steadyNow()
  const traces = traceIds(batch)
  let urgent = false
  for (const [key, indices] of byRollout(books.owners, arrived, traces, homeless)) {
    const fresh = !open.has(key)
    if (fresh) {
      if (indices.every((i) => !hints[i] && late.take(batch, i))) {
        urgent = true
        continue
      }
      late.opened(key)
    }
    const rollout = open.get(key, now)
    for (const i of indices) {
      rollout.traces.add(placeOf(traces[i]!, key))
      if (batch.signal === 'traces') rollout.rooted ||= isRoot(batch, i) && endTime(batch, i) > 0n
      else if (itemName(batch, i) === END_EVENT) rollout.ended = urgent = true
    }
    open.add(rollout, batch, indices, now)
    // Nothing but rewards for a run that is over: nothing more need be waited for.
    if (fresh && rollout.late && indices.every((i) => mayBeStray(batch, i))) rollout.due = urgent = true
  }
  return urgent
}

/** Indices of the batch's items by rollout. An item without a hint goes where its trace goes. */
function byRollout(
  owners: TraceOwners,
  { batch, hints, isStored }: Arrived,
  traces: readonly string[],
  homeless: (signal: string) => void,
): Map<string, number[]> {
  for (let i = 0; i < batch.count; i++) if (hints[i]) owners.claim(traces[i]!, hints[i]!)
  if (batch.signal === 'traces') {
    for (let i = 0; i < batch.count; i++) {
      const trace = traces[i]!
      for (const linked of linkedTraces(batch, i)) owners.follow(trace, linked)
      const response_id = attribute(batch, i, 'gen_ai.response.id')
      if (typeof response_id === 'string' && response_id !== '') {
        owners.holds(trace, { response_id, scope: scope(batch, i).name, start: startTime(batch, i), end: endTime(batch, i) })
      }
    }
  }
  const groups = new Map<string, number[]>()
  let group: number[] | undefined
  for (let i = 0; i < batch.count; i++) {
    if (!isStored(i)) {
      group = undefined
      continue
    }
    // Neighbours mostly go the same way.
    if (group && hints[i] === hints[i - 1] && traces[i] === traces[i - 1]) {
      group.push(i)
      continue
    }
    const key = hints[i] || (traces[i] && owners.of(traces[i]!))
    group = key ? groups.get(key) : undefined
    if (group) group.push(i)
    else if (key) groups.set(key, (group = [i]))
    else homeless(batch.signal)
  }
  return groups
}

/** Rewards that came by themselves make a new revision at once, unless more of the rollout is still to come. */
export function attachRewards({ open, owners }: Omit<Books, 'late'>, key: string, traceIds: readonly string[]): void {
  const known = open.has(key)
  const rollout = open.get(key, steadyNow())
  for (const trace of traceIds) {
    rollout.traces.add(trace)
    owners.give(trace, key)
  }
  if (!known) rollout.due = true
  open.letGo(rollout)
}
