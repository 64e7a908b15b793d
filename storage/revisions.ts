// Turns rollouts that are due into their next revision: finds out what storage knows of them,
// reads back what memory no longer holds, and assembles.

import { assemble } from '../data/assemble.ts'
import { steadyNow } from '../data/clock.ts'
import type { Dialect } from '../data/dialect.ts'
import { itemReader, keysReader, type ItemReader } from '../data/item_reader.ts'
import { heldItems, type ClosedBy, type OpenRollout } from '../data/open_rollouts.ts'
import type { Rollout } from '../data/rollout.ts'
import { HINT_KEYS, hintOfItem, placeOf, routeKey, splitKey, type GroupBy } from '../data/routing.ts'
import type { Item } from '../data/span.ts'
import type { RawItem } from '../data/span_batch.ts'
import type { Storage } from './storage.ts'

export interface Due {
  readonly rollout: OpenRollout
  readonly closed_by: ClosedBy
}

/** A rollout that cannot be assembled, or written as rows, however often it is tried: a defect of ours, which must not hold up the others. */
export class Unassemblable extends Error {
  override name = 'Unassemblable'
}

/**
 * @returns one revision per rollout; two that storage knows to be one become one, and one that another takes over an empty one. Rejects
 * as Unassemblable where one of them cannot be read, else with what storage says.
 */
export async function nextRevisions(
  storage: Storage,
  due: readonly Due[],
  dialects: readonly Dialect[],
  groupBy: GroupBy,
  join_keys: readonly string[] = [],
): Promise<Rollout[]> {
  const read = itemReader(dialects, join_keys)
  const owners = new Map<string, string>()
  const arrived = [...new Set(due.flatMap(({ rollout }) => [...rollout.traces]))]
  for (const { trace_id, rollout_id, attempt_id } of await storage.members(arrived)) owners.set(trace_id, routeKey(rollout_id, attempt_id))
  const takenOver = await takeOver(storage, due, owners)

  const parts = byKey(due, owners)
  const keys = [...parts.keys()].map(splitKey)
  const revisions = await storage.lastRevisions(keys)
  const growing = new Set(takenOver.map(({ by }) => by))
  const isPartial = ([key, part]: [string, Due[]]) => revisions.has(key) || growing.has(key) || part.some(({ rollout }) => !rollout.held)
  const partial = new Set([...parts].filter(isPartial).map(([key]) => key))
  const readBack = await readItemsOf(storage, partial, parts, owners, groupBy)

  const covered = await storage.coveredByOld(keys.filter((key) => revisions.has(routeKey(key.rollout_id, key.attempt_id))))
  const rollouts = [...parts].map(([key, part]) => {
    const held = () => part.map(({ rollout }) => rollout.held!)
    const items = partial.has(key) ? drained(readBack.get(key) ?? [], read) : heldItems(held(), read)
    const last = revisions.get(key)
    // A process that was killed may have a write on its way still, under a number that nobody sees yet.
    // And what is taken over is no first revision: its rewards may be known.
    const skipped = growing.has(key) || part.some(({ rollout }) => !rollout.held) ? 1 : 0
    return assembled(items, dialects, {
      key,
      closed_by: last === undefined ? part[0]!.closed_by : 'late',
      revision: (last ?? 0) + skipped + 1,
      join_keys,
      covered_until: Math.max(...part.map(({ rollout }) => rollout.last_at)),
    })
  })
  // What has lost spans since its last revision must not lose its transitions with them: only rewards are still heard.
  const expired = new Set(rollouts.filter((rollout) => rollout.spans < (covered.get(keyOf(rollout)) ?? 0)))
  for (const rollout of expired) await storage.rewardExpired(rollout, rollout.rewards)
  const emptied = takenOver.map(({ key, last }) =>
    assembled([], dialects, { key, closed_by: 'late', revision: last + 1, covered_until: steadyNow() }),
  )
  return [...rollouts.filter((rollout) => !expired.has(rollout)), ...emptied]
}

/** Of a huge rollout what was read of one item, and its bytes, are let go before the next. */
function* drained(raws: RawItem[], read: ItemReader): Generator<Item> {
  raws.reverse()
  for (let raw = raws.pop(); raw; raw = raws.pop()) yield read(raw)
}

function assembled(...[items, dialects, closing]: Parameters<typeof assemble>): Rollout {
  try {
    return assemble(items, dialects, closing)
  } catch (error) {
    throw new Unassemblable(`cannot be assembled: ${(error as Error).message}`, { cause: error })
  }
}

const keyOf = ({ rollout_id, attempt_id }: Rollout) => routeKey(rollout_id, attempt_id)

interface TakenOver {
  readonly key: string
  readonly last: number
  /** Key of the rollout that its traces belong to from now on. */
  readonly by: string
}

/**
 * A trace may be closed as a rollout of its own before a span of it comes that names another: then that one has it, with all that had
 * joined it. `owners` is brought up to date. One so old that some of its spans may be gone stays what it is.
 */
async function takeOver(storage: Storage, due: readonly Due[], owners: Map<string, string>): Promise<TakenOver[]> {
  const claims = new Map<string, string>()
  for (const { rollout } of due) {
    for (const trace of rollout.traces) {
      const own = routeKey(trace, '')
      if (own === rollout.key) continue
      if (!owners.has(trace)) owners.set(trace, rollout.key)
      // What was read back may have been taken over by a process that was killed before it could say so.
      else if (!claims.has(own) && (owners.get(trace) === own || !rollout.held)) claims.set(own, rollout.key)
    }
  }
  const keys = [...claims.keys()].map(splitKey)
  const revisions = await storage.lastRevisions(keys)
  const old = await storage.coveredByOld(keys)
  const taken = [...claims].flatMap(([key, by]) => (revisions.has(key) && !old.has(key) ? { key, last: revisions.get(key)!, by } : []))
  const heirs = new Map(taken.map(({ key, by }) => [key, by]))
  for (const [trace, owner] of owners) owners.set(trace, heirs.get(owner) ?? owner)
  return taken
}

/** Late spans without a hint come under their trace's id; storage may know that trace as part of another rollout. */
function byKey(due: readonly Due[], owners: ReadonlyMap<string, string>): Map<string, Due[]> {
  const parts = new Map<string, Due[]>()
  for (const one of due) {
    const { rollout_id, attempt_id } = splitKey(one.rollout.key)
    const key = (attempt_id === '' && owners.get(rollout_id)) || one.rollout.key
    const part = parts.get(key)
    if (part) part.push(one)
    else parts.set(key, [one])
  }
  return parts
}

const readHints = keysReader(HINT_KEYS)

async function readItemsOf(
  storage: Storage,
  keys: ReadonlySet<string>,
  parts: ReadonlyMap<string, readonly Due[]>,
  owners: Map<string, string>,
  groupBy: GroupBy,
): Promise<Map<string, RawItem[]>> {
  if (keys.size === 0) return new Map()
  for (const { trace_id, rollout_id, attempt_id } of await storage.tracesOf([...keys].map(splitKey))) {
    owners.set(trace_id, routeKey(rollout_id, attempt_id))
  }
  const traces = new Set<string>()
  for (const [trace, owner] of owners) if (keys.has(owner)) traces.add(trace)
  for (const key of keys) {
    traces.add(placeOf('', key)) // of log records outside of any trace
    for (const { rollout } of parts.get(key)!) {
      for (const trace of rollout.traces) {
        traces.add(trace)
        if (!owners.has(trace)) owners.set(trace, key)
      }
    }
  }
  const items = new Map<string, RawItem[]>()
  for (const raw of await storage.readItems([...traces])) {
    const item = readHints(raw)
    const key = hintOfItem(item, groupBy) || owners.get(item.trace_id)
    if (key === undefined || !keys.has(key)) continue
    const own = items.get(key)
    if (own) own.push(raw)
    else items.set(key, [raw])
  }
  return items
}
