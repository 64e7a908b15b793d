// Reads back from storage what memory no longer holds of rollouts that are due, and of a rollout no more than its limits allow.

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

/** Where items of a rollout may stand, and about how much that is. */
export interface Extent extends Size {
  readonly traces: ReadonlySet<string>
}

interface ReadBack {
  /** By the rollout's key. */
  readonly items: ReadonlyMap<string, RawItem[]>
  /** Rollouts of which only the beginning was read, and the limit that they are beyond. */
  readonly cut: ReadonlyMap<string, keyof Limits>
  /** Spans and log records that are beyond the limits of their rollouts. */
  readonly beyond: number
}

/** To look at a clock for each would take as long as reading them. */
const MANY = 64

const readHints = keysReader(HINT_KEYS)

/**
 * @param parts what arrived for each rollout, by its key
 * @param isNew whether nothing of the rollout but what arrived is in storage
 * @param owners keys of rollouts by trace; what storage knows more of them is added
 */
export async function extentsOf(
  storage: Storage,
  parts: ReadonlyMap<string, readonly Taken[]>,
  isNew: (key: string) => boolean,
  owners: Map<string, string>,
): Promise<Map<string, Extent>> {
  const asked = [...parts.keys()].filter((key) => !isNew(key))
  const traces = await tracesOf(storage, parts, asked, owners)
  const sizes = await sizesByTrace(storage, new Set(asked.flatMap((key) => [...traces.get(key)!])))
  return new Map(
    [...parts].map(([key, part]) => {
      const own = traces.get(key)!
      // What names no rollout may be of this one.
      const stored = () => [...own].flatMap((trace) => (sizes.get(trace) ?? []).filter((size) => size.key === key || size.key === ''))
      return [key, { traces: own, ...(isNew(key) ? arrived(part) : sum(stored())) }]
    }),
  )
}

/** How much arrived while it was open. */
export const arrived = (part: readonly Taken[]): Size => sum(part.map(({ rollout: { count, bytes } }) => ({ items: count, bytes })))

/** @param owners keys of rollouts by trace */
export async function readBack(
  storage: Storage,
  extents: ReadonlyMap<string, Extent>,
  owners: ReadonlyMap<string, string>,
  { group_by, ...limits }: Limits & { readonly group_by: GroupBy },
): Promise<ReadBack> {
  const items = new Map<string, RawItem[]>()
  const cut = new Map<string, keyof Limits>()
  let beyond = 0
  const whole = new Map<string, Extent>()
  for (const [key, extent] of extents) {
    const over = extent.bytes > limits.max_bytes ? 'max_bytes' : extent.items > limits.max_spans ? 'max_spans' : null
    if (!over) {
      whole.set(key, extent)
      continue
    }
    cut.set(key, over)
    const read = await storage.readItems([...extent.traces], { keys: [key], most: { items: limits.max_spans, bytes: limits.max_bytes } })
    beyond += extent.items - read.length
    await take(read, (owner) => owner === key)
  }
  const all = new Set([...whole.values()].flatMap(({ traces }) => [...traces]))
  await take(await storage.readItems([...all], { keys: [...whole.keys()] }), (owner) => whole.has(owner))
  return { items, cut, beyond }

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

/** @param asked keys of rollouts whose traces storage is asked for, too */
async function tracesOf(
  storage: Storage,
  parts: ReadonlyMap<string, readonly Taken[]>,
  asked: readonly string[],
  owners: Map<string, string>,
): Promise<Map<string, Set<string>>> {
  const traces = new Map([...parts.keys()].map((key) => [key, new Set([placeOf('', key)])])) // of log records outside of any trace
  for (const { trace_id, rollout_id, attempt_id } of await storage.tracesOf(asked.map(splitKey))) {
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

async function sizesByTrace(storage: Storage, traces: ReadonlySet<string>) {
  const sizes = new Map<string, Awaited<ReturnType<Storage['sizesOf']>>>()
  for (const size of await storage.sizesOf([...traces])) sizes.set(size.trace_id, [...(sizes.get(size.trace_id) ?? []), size])
  return sizes
}

const sum = (sizes: readonly Size[]): Size => ({
  items: sizes.reduce((all, { items }) => all + items, 0),
  bytes: sizes.reduce((all, { bytes }) => all + bytes, 0),
})
