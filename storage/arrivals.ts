// What was stored is added to the rollouts that are open. Here it is decided which rollout each item belongs to.

import { steadyNow } from '../data/clock.ts'
import { hasLinks, linkedTraces } from '../data/links.ts'
import { END_EVENT } from '../data/notes.ts'
import { NO_TRACE, type KnownTrace, type Traces } from '../data/known_traces.ts'
import type { OpenRollout, Watched } from '../data/open_rollout.ts'
import type { OpenRollouts } from '../data/open_rollouts.ts'
import { isPlainAscii, plain } from '../data/plain_text.ts'
import { attributeAt } from '../data/read.ts'
import { CALL, newCall, putResponse, type CallRecord } from '../data/recent_calls.ts'
import { placeOf } from '../data/routing.ts'
import { hasEnded, isRoot, nameIs, putAboutTimes, scope, tracesIn, type SpanBatch } from '../data/span_batch.ts'
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

/** A batch on its way into storage, with what of it is needed when it is there: then its bytes have left the processor's caches. */
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
  const now = steadyNow()
  let urgent = false
  byRollout(books, arrived, { refused, homeless }, (group) => {
    if (addGroup(books, arrived, rows, group, now)) urgent = true
  })
  return urgent
}

/** What of a batch belongs to the rollout of this key, which may be open. */
interface Group {
  key: string
  rollout: Watched | undefined
  order: Int32Array
  from: number
  to: number
}

function addGroup({ open, late }: Books, { batch, hints, traces }: Arriving, rows: readonly Run[], group: Group, now: number): boolean {
  const { key, rollout: known, order, from, to } = group
  if (!known) {
    if (takeStrays(late, batch, hints, group)) return true
    late.opened(key)
  }
  const rollout = known ?? open.get(key, now)
  let latest: KnownTrace | undefined
  for (let n = from; n < to; n++) {
    const i = order[n]!
    note(rollout, batch, i)
    const trace = traceIn(traces, i)
    if (hints[i] || trace === undefined) rollout.traces.add(placeOf(trace?.id ?? '', key))
    else if (trace !== latest && open.ofTrace(trace) !== rollout) open.addTrace(rollout, trace)
    latest = trace
  }
  open.add(rollout, batch, rows, group, now)
  // Nothing but rewards for a run that is over: nothing more need be waited for.
  if (!known && rollout.late && mayBeStrays(batch, group)) rollout.due = true
  const urgent = rollout.ended || rollout.due
  if (urgent) open.lookSoon(rollout)
  return urgent
}

/** Takes what may be rewards for another rollout, as far as it is; false when it is not all of the group. */
function takeStrays(late: LateRewards, batch: SpanBatch, hints: readonly string[], { order, from, to }: Group): boolean {
  for (let n = from; n < to; n++) if (hints[order[n]!] || !late.take(batch, order[n]!)) return false
  return true
}

function mayBeStrays(batch: SpanBatch, { order, from, to }: Group): boolean {
  for (let n = from; n < to; n++) if (!mayBeStray(batch, order[n]!)) return false
  return true
}

/** What item i says of how far its rollout is. */
export function note(rollout: OpenRollout, batch: SpanBatch, i: number): void {
  if (batch.signal === 'traces') rollout.rooted ||= isRoot(batch, i) && hasEnded(batch, i)
  else if (nameIs(batch, i, END_EVENT)) rollout.ended = true
}

const traceIn = ({ known, of }: Traces, i: number): KnownTrace | undefined => (of[i] === NO_TRACE ? undefined : known[of[i]!])
export const traceOf = (traces: Traces, i: number): string => traceIn(traces, i)?.id ?? ''

/** What the items say of the rollouts that their traces belong to. */
export function claimTraces({ open, owners }: Pick<Books, 'open' | 'owners'>, { batch, hints, traces }: Arriving): void {
  for (let i = 0; i < hints.length; i++) {
    const trace = hints[i] ? traceIn(traces, i) : undefined
    if (trace && open.ofTrace(trace)?.key !== hints[i]) owners.claim(trace.id, hints[i]!)
  }
  if (batch.signal !== 'traces') return
  const place = batch.keys.indexOf(RESPONSE_ID)
  for (let i = 0; i < batch.count; i++) {
    if (hasLinks(batch, i)) for (const linked of linkedTraces(batch, i)) owners.follow(traceOf(traces, i), linked)
    const slot = place < 0 ? 0 : batch.slots[i * batch.keys.length + place]!
    if (slot === 0 || !namesResponse(call, batch.body, slot)) continue
    call.scope = scope(batch, i).name
    putAboutTimes(batch, i, call.numbers, CALL.start, CALL.end)
    owners.holds(traceOf(traces, i), call)
  }
}

/** The one that is looked at. */
const call = newCall()

/** Shows the batch's items by rollout. One without a hint goes where its trace goes. A group is good while it is shown. */
export function byRollout(
  books: Pick<Books, 'open' | 'owners'>,
  { batch, hints, traces }: Arriving,
  { refused, homeless }: { refused: readonly number[]; homeless: (signal: string) => void },
  show: (group: Readonly<Group>) => void,
): void {
  const { count } = batch
  if (order.length < count) {
    order = new Int32Array(2 * count)
    groupOf = new Int32Array(2 * count)
    groupOfTrace = new Int32Array(2 * count)
  }
  groupCount = 0
  if (unopened.size > 0) unopened.clear()
  groupOfTrace.fill(NONE, 0, traces.known.length)
  let hint = ''
  let hinted = NONE
  for (let i = 0; i < count; i++) {
    groupOf[i] = NONE
    if (refused.length > 0 && refused.includes(i)) continue
    const trace = traces.of[i]!
    const own = hints[i]
    let g: number
    if (own) {
      if (own !== hint) hinted = groupOfKey(books.open, (hint = own))
      g = hinted
    } else if (trace === NO_TRACE) {
      homeless(batch.signal)
      continue
    } else {
      if (groupOfTrace[trace] === NONE) groupOfTrace[trace] = groupOfKnown(books, traces.known[trace]!)
      g = groupOfTrace[trace]!
    }
    groupOf[i] = g
    groups[g]!.to++
  }
  // First how many each has, then where each begins, then which they are.
  let end = 0
  for (let g = 0; g < groupCount; g++) {
    const group = groups[g]!
    const size = group.to
    group.from = group.to = end
    end += size
  }
  for (let i = 0; i < count; i++) if (groupOf[i] !== NONE) order[groups[groupOf[i]!]!.to++] = i
  for (let g = 0; g < groupCount; g++) {
    const group = groups[g]!
    show(group)
    group.rollout = undefined // nobody's spans are held on to
  }
  if (groups.length > KEPT_GROUPS) groups.length = KEPT_GROUPS
}

function groupOfKnown({ open, owners }: Pick<Books, 'open' | 'owners'>, trace: KnownTrace): number {
  const rollout = open.ofTrace(trace)
  return rollout ? groupOfRollout(rollout) : groupOfKey(open, owners.of(trace.id, trace.key))
}

function groupOfKey(open: OpenRollouts, key: string): number {
  const rollout = open.find(key)
  if (rollout) return groupOfRollout(rollout)
  let g = unopened.get(key)
  if (g === undefined) unopened.set(key, (g = newGroup(key)))
  return g
}

function groupOfRollout(rollout: Watched): number {
  const { group } = rollout
  if (group < groupCount && groups[group]!.rollout === rollout) return group
  return (rollout.group = newGroup(rollout.key, rollout))
}

function newGroup(key: string, rollout?: Watched): number {
  const group = groups[groupCount]
  if (!group) groups.push({ key, rollout, order, from: 0, to: 0 })
  else {
    group.key = key
    group.rollout = rollout
    group.order = order
    group.from = group.to = 0
  }
  return groupCount++
}

/** So many are used again: they would be a tenth of all garbage. */
const KEPT_GROUPS = 1_024

/** Of the batch that is looked at. */
const groups: Group[] = []
let groupCount = 0
const unopened = new Map<string, number>()
let order = new Int32Array(1_024)
let groupOf = new Int32Array(1_024)
let groupOfTrace = new Int32Array(1_024)

const NONE = -1

/** False where the attribute that stands there is no response's id. */
function namesResponse(call: CallRecord, bytes: Buffer, slot: number): boolean {
  if (isPlainAscii(bytes, slot)) {
    if (plain.start === plain.end) return false
    putResponse(call, bytes, plain.start, plain.end)
    return true
  }
  const value = attributeAt(bytes, slot)
  if (typeof value !== 'string' || value === '') return false
  putResponse(call, Buffer.from(value))
  return true
}

/** Rewards that came by themselves make a new revision at once, unless more of the rollout is still to come. */
export function attachRewards({ open, owners }: Omit<Books, 'late'>, key: string, traceIds: readonly string[]): void {
  const known = open.has(key)
  const rollout = open.get(key, steadyNow())
  for (const trace of traceIds) {
    rollout.traces.add(trace)
    owners.give(trace, key)
  }
  open.forgetTraces()
  if (!known) rollout.due = true
  open.letGo(rollout)
  open.lookSoon(rollout)
}
