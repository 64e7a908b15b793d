// Opens again what an earlier process left open, or closed before its last spans came. What was stored is read as bytes, some at a time, and
// told by the code that tells what arrives; nothing of it is held.

import { batchesOf } from '../data/batches_of.ts'
import { steadyNow } from '../data/clock.ts'
import { giveWay } from '../data/give_way.ts'
import { hintsOf, splitKey, type GroupBy } from '../data/routing.ts'
import { readItem } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import { mayBeStray } from '../data/stray_rewards.ts'
import { arriving, byRollout, claimTraces, note, traceOf, type Arriving, type Books } from './arrivals.ts'
import type { Storage, Uncovered } from './storage.ts'

/** Traces whose sizes are asked for at once. */
const TOGETHER = 1_000
/** Bytes of traces that are read at once. */
const PORTION_BYTES = 8 << 20
/** Of a larger trace the beginning is read: where it belongs is said there, if anywhere. */
const MOST = { items: 1_000_000, bytes: 16 << 20 }

/** Rejects when storage cannot be asked; to begin anew does no harm. */
export async function resumeOpen(storage: Storage, books: Books, groupBy: GroupBy, stopped: () => boolean): Promise<void> {
  const found = await storage.uncovered()
  for (let i = 0; i < found.length; i += TOGETHER) {
    for (const { some, bytes } of await portions(storage, found.slice(i, i + TOGETHER))) {
      if (stopped()) return
      const items = await storage.readItems(
        some.map(({ trace_id }) => trace_id),
        bytes > MOST.bytes ? { most: MOST } : {},
      )
      const arrived: Arriving[] = []
      for (const batch of batchesOf(items)) {
        arrived.push(arriving(batch, hintsOf(batch, groupBy)))
        await giveWay()
      }
      await resumeSome(storage, books, some, arrived)
    }
  }
}

interface Portion {
  readonly some: Uncovered[]
  bytes: number
}

async function portions(storage: Storage, found: readonly Uncovered[]): Promise<Portion[]> {
  const sizes = new Map<string, number>()
  for (const { trace_id, bytes } of await storage.sizesOf(found.map(({ trace_id }) => trace_id))) {
    sizes.set(trace_id, bytes + (sizes.get(trace_id) ?? 0))
  }
  const all: Portion[] = []
  for (const one of found) {
    const bytes = sizes.get(one.trace_id) ?? 0
    const last = all.at(-1)
    if (last && last.bytes + bytes <= PORTION_BYTES) {
      last.some.push(one)
      last.bytes += bytes
    } else all.push({ some: [one], bytes })
  }
  return all
}

async function resumeSome(storage: Storage, books: Books, found: readonly Uncovered[], arrived: readonly Arriving[]): Promise<void> {
  const { open, owners } = books
  const strays = takeStrays(books, found, arrived)
  for (const { trace_id, hints } of found) if (hints[0]) owners.claim(trace_id, hints[0])
  for (const one of arrived) claimTraces(books, one)
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
  for (const one of arrived) {
    byRollout(books, one, { refused: [], homeless: () => {} }, ({ key, order, from, to }) => {
      const own = order.subarray(from, to).filter((i) => !strays.has(traceOf(one.traces, i)))
      if (own.length === 0) return
      const rollout = open.get(key, steadyNow())
      for (const i of own) note(rollout, one.batch, i)
      open.lookSoon(rollout)
    })
    await giveWay()
  }
}

/** Traces that hold nothing but rewards that came by themselves: also those once given up, as long as their records are kept. */
function takeStrays({ late }: Books, found: readonly Uncovered[], arrived: readonly Arriving[]): Set<string> {
  const others = new Set(found.flatMap(({ trace_id, hints }) => (hints.length > 0 ? trace_id : [])))
  const perhaps: Item[] = []
  for (const { batch, traces } of arrived) {
    for (let i = 0; i < batch.count; i++) {
      const trace = traceOf(traces, i)
      if (others.has(trace)) continue
      if (mayBeStray(batch, i)) perhaps.push(readItem(batch, i))
      else others.add(trace)
    }
  }
  return late.takeTraces(perhaps.filter(({ trace_id }) => !others.has(trace_id)))
}
