// Reads back from storage what memory no longer holds of rollouts that are due: no more at once than memory has room for, and of a
// rollout no more than its limits allow.

import { giveWay } from '../data/give_way.ts'
import { keysReader } from '../data/item_reader.ts'
import type { Taken } from '../data/open_rollouts.ts'
import { HINT_KEYS, hintOfItem, placeOf, routeKey, splitKey, type GroupBy } from '../data/routing.ts'
import type { RawItem } from '../data/span_batch.ts'
import type { Size, Storage } from './storage.ts'

/** No rollout takes in more. */
export interface Limits {
  readonly max_spans: number
  readonly max_bytes: number
}

interface ReadBack {
  /** By the rollout's key. */
  readonly items: ReadonlyMap<string, RawItem[]>
  /** Rollouts of which only the beginning was read, and the limit that they are beyond. */
  readonly cut: ReadonlyMap<string, keyof Limits>
  /** Those that have to wait until the others are done with. The first never has. */
  readonly left: ReadonlySet<string>
  /** Spans and log records that are beyond the limits of their rollouts. */
  readonly beyond: number
}

/** Bytes that are read at once, as long as no single rollout has more. */
const TOGETHER = 16 << 20

/** To look at a clock for each would take as long as reading them. */
const MANY = 64

const readHints = keysReader(HINT_KEYS)

/**
 * @param parts what arrived for each rollout, by its key
 * @param owners keys of rollouts by trace; what storage knows more of them is added
 */
export async function readBack(
  storage: Storage,
  parts: ReadonlyMap<string, readonly Taken[]>,
  owners: Map<string, string>,
  { group_by, ...limits }: Limits & { readonly group_by: GroupBy },
): Promise<ReadBack> {
  const items = new Map<string, RawItem[]>()
  const cut = new Map<string, keyof Limits>()
  const left = new Set<string>()
  let beyond = 0
  if (parts.size === 0) return { items, cut, left, beyond }

  const traces = await tracesOf(storage, parts, owners)
  const sizes = await sizesByTrace(storage, traces)
  const whole = new Set<string>()
  let together = 0
  for (const [key, own] of traces) {
    // What names no rollout may be of this one.
    const size = sum([...own].flatMap((trace) => (sizes.get(trace) ?? []).filter((part) => part.key === key || part.key === '')))
    const over = size.bytes > limits.max_bytes ? 'max_bytes' : size.items > limits.max_spans ? 'max_spans' : null
    together += Math.min(size.bytes, limits.max_bytes)
    if (together > TOGETHER && (whole.size > 0 || cut.size > 0)) left.add(key)
    else if (!over) whole.add(key)
    else {
      cut.set(key, over)
      const read = await storage.readItems([...own], { keys: [key], most: { items: limits.max_spans, bytes: limits.max_bytes } })
      beyond += size.items - read.length
      await take(read, (owner) => owner === key)
    }
  }
  const all = new Set([...whole].flatMap((key) => [...traces.get(key)!]))
  await take(await storage.readItems([...all], { keys: [...whole] }), (owner) => whole.has(owner))
  return { items, cut, left, beyond }

  async function take(read: readonly RawItem[], wanted: (key: string) => boolean): Promise<void> {
    for (const [i, raw] of read.entries()) {
      if (i % MANY === 0) await giveWay()
      const item = readHints(raw)
      const key = hintOfItem(item, group_by) || owners.get(item.trace_id)
      if (key === undefined || !wanted(key)) continue
      const own = items.get(key)
      if (own) own.push(raw)
      else items.set(key, [raw])
    }
  }
}

/** Where items of each rollout may stand. */
async function tracesOf(
  storage: Storage,
  parts: ReadonlyMap<string, readonly Taken[]>,
  owners: Map<string, string>,
): Promise<Map<string, Set<string>>> {
  const keys = [...parts.keys()]
  const traces = new Map(keys.map((key) => [key, new Set([placeOf('', key)])])) // of log records outside of any trace
  for (const { trace_id, rollout_id, attempt_id } of await storage.tracesOf(keys.map(splitKey))) {
    const key = routeKey(rollout_id, attempt_id)
    traces.get(key)?.add(trace_id)
    owners.set(trace_id, key)
  }
  for (const [trace, owner] of owners) traces.get(owner)?.add(trace)
  for (const [key, part] of parts) {
    for (const trace of part.flatMap(({ rollout }) => [...rollout.traces])) {
      traces.get(key)!.add(trace)
      if (!owners.has(trace)) owners.set(trace, key)
    }
  }
  return traces
}

async function sizesByTrace(storage: Storage, traces: ReadonlyMap<string, ReadonlySet<string>>) {
  const all = new Set([...traces.values()].flatMap((own) => [...own]))
  const sizes = new Map<string, Awaited<ReturnType<Storage['sizesOf']>>>()
  for (const size of await storage.sizesOf([...all])) sizes.set(size.trace_id, [...(sizes.get(size.trace_id) ?? []), size])
  return sizes
}

const sum = (sizes: readonly Size[]): Size => ({
  items: sizes.reduce((all, { items }) => all + items, 0),
  bytes: sizes.reduce((all, { bytes }) => all + bytes, 0),
})
