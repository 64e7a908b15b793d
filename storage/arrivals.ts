// What was stored is added to the rollouts that are open. Here it is decided which rollout each item belongs to.

import { steadyNow } from '../data/clock.ts'
import { linkedTraces } from '../data/links.ts'
import { END_EVENT } from '../data/notes.ts'
import type { OpenRollout, OpenRollouts } from '../data/open_rollouts.ts'
import { NO_TRACE, type Traces } from '../data/known_traces.ts'
import { isPlainAscii, plain } from '../data/plain_text.ts'
import { attributeAt } from '../data/read.ts'
import { responseKey } from '../data/recent_calls.ts'
import { placeOf } from '../data/routing.ts'
import { aboutEnd, aboutStart, isRoot, itemName, scope, tracesIn, type SpanBatch } from '../data/span_batch.ts'
import type { Run } from '../data/span_memory.ts'
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

/** A batch on its way into storage, with what of it is needed when it is there: then its bytes have long left the processor's caches. */
export interface Arriving {
  readonly batch: SpanBatch
  readonly hints: readonly string[]
  readonly traces: Traces
}

export const arriving = (batch: SpanBatch, hints: readonly string[]): Arriving => ({ batch, hints, traces: tracesIn(batch) })

/**
 * @param rows all that were made of the batch
 * @param refused indices of what was refused for good: it belongs nowhere
 * @param homeless is told of an item that belongs nowhere, having neither hint nor trace
 * @returns whether something is to be done about these rollouts at once
 */
export function addArrived(
  books: Books,
  arrived: Arriving,
  { rows, refused, homeless }: { rows: readonly Run[]; refused: readonly number[]; homeless: (signal: string) => void },
): boolean {
  const { batch, traces } = arrived
  claimTraces(books.owners, arrived)
  const now = steadyNow()
  let urgent = false
  for (const [key, indices] of byRollout(books.owners, arrived, refused, homeless)) {
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
    let trace: number | undefined
    for (const i of indices) {
      if (traces.of[i] !== trace) rollout.traces.add(placeOf(traceOf(traces, i), key))
      trace = traces.of[i]
      note(rollout, batch, i)
    }
    open.add(rollout, batch, rows, indices, now)
    // Nothing but rewards for a run that is over: nothing more need be waited for.
    if (fresh && rollout.late && indices.every((i) => mayBeStray(batch, i))) rollout.due = true
    const urgent = rollout.ended || rollout.due
    if (urgent) open.lookSoon(rollout)
    return urgent
  }
}

/** What item i says of how far its rollout is. */
export function note(rollout: OpenRollout, batch: SpanBatch, i: number): void {
  if (batch.signal === 'traces') rollout.rooted ||= isRoot(batch, i) && aboutEnd(batch, i) > 0
  else if (itemName(batch, i) === END_EVENT) rollout.ended = true
}

export const traceOf = ({ ids, of }: Traces, i: number): string => (of[i] === NO_TRACE ? '' : ids[of[i]!]!)

/** What the items say of the rollouts that their traces belong to. */
export function claimTraces(owners: TraceOwners, { batch, hints, traces }: Arriving): void {
  for (let i = 0; i < hints.length; i++) if (hints[i]) owners.claim(traceOf(traces, i), hints[i]!)
  if (batch.signal !== 'traces') return
  const place = batch.keys.indexOf(RESPONSE_ID)
  for (let i = 0; i < batch.count; i++) {
    for (const linked of linkedTraces(batch, i)) owners.follow(traceOf(traces, i), linked)
    const slot = place < 0 ? 0 : batch.slots[i * batch.keys.length + place]!
    const response = slot === 0 ? NONE : responseAt(batch.body, slot)
    if (response === NONE) continue
    owners.holds(traceOf(traces, i), { response, scope: scope(batch, i).name, start: aboutStart(batch, i), end: aboutEnd(batch, i) })
  }
}

/** Indices of the batch's items by rollout. An item without a hint goes where its trace goes. */
export function byRollout(
  owners: TraceOwners,
  { batch, hints, traces }: Arriving,
  refused: readonly number[],
  homeless: (signal: string) => void,
): Map<string, number[]> {
  const groups = new Map<string, number[]>()
  const groupOf = (key: string): number[] => {
    let group = groups.get(key)
    if (!group) groups.set(key, (group = []))
    return group
  }
  const ofTrace: (number[] | undefined)[] = []
  for (let i = 0; i < batch.count; i++) {
    if (refused.length > 0 && refused.includes(i)) continue
    const trace = traces.of[i]!
    if (hints[i]) groupOf(hints[i]!).push(i)
    else if (trace !== NO_TRACE) (ofTrace[trace] ??= groupOf(owners.of(traces.ids[trace]!))).push(i)
    else homeless(batch.signal)
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
  if (!known) rollout.due = true
  open.letGo(rollout)
  open.lookSoon(rollout)
}
