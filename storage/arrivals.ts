// What was stored is added to the rollouts that are open. Here it is decided which rollout each item belongs to.

import { steadyNow } from '../data/clock.ts'
import { linkedTraces } from '../data/links.ts'
import { END_EVENT } from '../data/notes.ts'
import type { OpenRollouts } from '../data/open_rollouts.ts'
import { isPlainAscii, plain } from '../data/plain_text.ts'
import { attributeAt } from '../data/read.ts'
import { responseKey } from '../data/recent_calls.ts'
import { placeOf } from '../data/routing.ts'
import { aboutEnd, aboutStart, isRoot, itemName, scope, traceIds, type SpanBatch } from '../data/span_batch.ts'
import { mayBeStray } from '../data/stray_rewards.ts'
import type { TraceOwners } from '../data/trace_owners.ts'
import type { LateRewards } from './late_rewards.ts'

const RESPONSE_ID = 'gen_ai.response.id'

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
  const { batch } = arrived
  const traces = traceIds(batch)
  claimTraces(books.owners, arrived, traces)
  const now = steadyNow()
  let urgent = false
  for (const [key, indices] of byRollout(books.owners, arrived, traces, homeless)) {
    if (addTo(key, indices)) urgent = true
  }
  return urgent

  function addTo(key: string, indices: readonly number[]): boolean {
    const { open, late } = books
    const fresh = !open.has(key)
    if (fresh) {
      if (indices.every((i) => !arrived.hints[i] && late.take(batch, i))) return true
      late.opened(key)
    }
    const rollout = open.get(key, now)
    let trace: string | undefined
    for (const i of indices) {
      if (traces[i] !== trace) rollout.traces.add(placeOf((trace = traces[i]!), key))
      if (batch.signal === 'traces') rollout.rooted ||= isRoot(batch, i) && aboutEnd(batch, i) > 0
      else if (itemName(batch, i) === END_EVENT) open.finish(rollout, 'ended')
    }
    open.add(rollout, batch, indices, now)
    // Nothing but rewards for a run that is over: nothing more need be waited for.
    if (fresh && rollout.late && indices.every((i) => mayBeStray(batch, i))) open.finish(rollout, 'due')
    return rollout.ended || rollout.due
  }
}

/** What the items say of the rollouts that their traces belong to. */
function claimTraces(owners: TraceOwners, { batch, hints }: Arrived, traces: readonly string[]): void {
  for (let i = 0; i < hints.length; i++) if (hints[i]) owners.claim(traces[i]!, hints[i]!)
  if (batch.signal !== 'traces') return
  const place = batch.keys.indexOf(RESPONSE_ID)
  for (let i = 0; i < batch.count; i++) {
    for (const linked of linkedTraces(batch, i)) owners.follow(traces[i]!, linked)
    const slot = place < 0 ? 0 : batch.slots[i * batch.keys.length + place]!
    const response = slot === 0 ? NONE : responseAt(batch.body, slot)
    if (response === NONE) continue
    owners.holds(traces[i]!, { response, scope: scope(batch, i).name, start: aboutStart(batch, i), end: aboutEnd(batch, i) })
  }
}

/** Indices of the batch's items by rollout. An item without a hint goes where its trace goes. */
function byRollout(
  owners: TraceOwners,
  { batch, hints, isStored }: Arrived,
  traces: readonly string[],
  homeless: (signal: string) => void,
): Map<string, number[]> {
  const groups = new Map<string, number[]>()
  const groupOf = (key: string): number[] => {
    let group = groups.get(key)
    if (!group) groups.set(key, (group = []))
    return group
  }
  const ofTrace = new Map<string, number[]>()
  for (let i = 0; i < batch.count; i++) {
    if (!isStored(i)) continue
    const trace = traces[i]!
    if (hints[i]) groupOf(hints[i]!).push(i)
    else if (trace !== '') {
      let group = ofTrace.get(trace)
      if (!group) ofTrace.set(trace, (group = groupOf(owners.of(trace))))
      group.push(i)
    } else homeless(batch.signal)
  }
  return groups
}

const NONE = -1

function responseAt(bytes: Buffer, slot: number): number {
  if (isPlainAscii(bytes, slot)) return plain.start === plain.end ? NONE : responseKey(bytes, plain.start, plain.end)
  const value = attributeAt(bytes, slot)
  return typeof value === 'string' && value !== '' ? responseKey(Buffer.from(value)) : NONE
}

/** Rewards that came by themselves make a new revision at once, unless more of the rollout is still to come. */
export function attachRewards({ open, owners }: Omit<Books, 'late'>, key: string, traceIds: readonly string[]): void {
  const known = open.has(key)
  const rollout = open.get(key, steadyNow())
  for (const trace of traceIds) {
    rollout.traces.add(trace)
    owners.give(trace, key)
  }
  if (!known) open.finish(rollout, 'due')
  open.letGo(rollout)
}
