// Opens again what an earlier process left open, or closed before its last spans came.

import { END_EVENT } from '../data/notes.ts'
import { steadyNow } from '../data/clock.ts'
import { readRaw } from '../data/read.ts'
import { responseKey } from '../data/recent_calls.ts'
import { hintOfItem, splitKey, type GroupBy } from '../data/routing.ts'
import type { Books } from './arrivals.ts'
import type { Storage, Uncovered } from './storage.ts'

/** Traces that are read at once, and bytes of them. Of a larger one the beginning is read: where it belongs is said there, if anywhere. */
const TOGETHER = 100
const MOST = { items: 1_000_000, bytes: 16 << 20 }

/** Rejects when storage cannot be asked; to begin anew does no harm. */
export async function resumeOpen(storage: Storage, books: Books, groupBy: GroupBy, stopped: () => boolean): Promise<void> {
  const found = await storage.uncovered()
  for (const some of portions(found)) {
    if (stopped()) return
    await resumeSome(storage, books, groupBy, some)
  }
}

function* portions(found: readonly Uncovered[]): Generator<Uncovered[]> {
  let some: Uncovered[] = []
  let bytes = 0
  for (const one of found) {
    if (some.length === TOGETHER || (some.length > 0 && bytes + one.bytes > MOST.bytes)) {
      yield some
      some = []
      bytes = 0
    }
    some.push(one)
    bytes += one.bytes
  }
  if (some.length > 0) yield some
}

async function resumeSome(storage: Storage, { open, owners, late }: Books, groupBy: GroupBy, found: readonly Uncovered[]): Promise<void> {
  const isLarge = found.some(({ bytes }) => bytes > MOST.bytes)
  const traces = found.map(({ trace_id }) => trace_id)
  const items = (await storage.readItems(traces, isLarge ? { most: MOST } : {})).map(readRaw)
  // Rewards that came by themselves: also those once given up, as long as their records are kept.
  const hinted = new Set(found.flatMap(({ trace_id, hints }) => (hints.length > 0 ? trace_id : [])))
  const strays = late.takeTraces(items.filter(({ trace_id }) => !hinted.has(trace_id)))
  for (const { trace_id, hints } of found) if (hints[0]) owners.claim(trace_id, hints[0])
  for (const item of items) {
    if (item.signal !== 'span') continue
    for (const link of item.links) owners.follow(item.trace_id, link.trace_id)
    const response_id = item.attributes['gen_ai.response.id']
    if (typeof response_id === 'string' && response_id !== '') {
      const response = responseKey(Buffer.from(response_id))
      owners.holds(item.trace_id, { response, scope: item.scope.name, start: Number(item.start_time), end: Number(item.end_time) })
    }
  }
  const resumed = found.flatMap(({ trace_id, hints, first_received_at, last_received_at }) => {
    if (strays.has(trace_id)) return []
    // A hint may have come while this was read, and have claimed the trace.
    const keys = hints.length ? hints : [owners.of(trace_id)]
    return keys.map((key) => {
      const rollout = open.get(key, first_received_at)
      rollout.traces.add(trace_id)
      rollout.last_at = Math.max(rollout.last_at, last_received_at)
      open.letGo(rollout)
      return rollout
    })
  })
  const revisions = await storage.lastRevisions(resumed.map(({ key }) => splitKey(key)))
  for (const rollout of resumed) rollout.late ||= revisions.has(rollout.key)
  for (const item of items) {
    if (strays.has(item.trace_id)) continue
    const key = hintOfItem(item, groupBy) || owners.of(item.trace_id)
    const rollout = open.get(key, steadyNow())
    if (item.signal === 'span') rollout.rooted ||= (item.parent_span_id === '' || item.remote_parent) && item.end_time > 0n
    else if (item.event_name === END_EVENT) rollout.ended = true
    open.lookSoon(rollout)
  }
}
