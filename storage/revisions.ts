// Turns rollouts that are due into their next revision: finds out what storage knows of them,
// reads back what memory no longer holds, and assembles.

import { assemble } from '../data/assemble.ts'
import { steadyNow } from '../data/clock.ts'
import type { Dialect } from '../data/dialect.ts'
import { giveWay } from '../data/give_way.ts'
import { itemReader, type ItemReader } from '../data/item_reader.ts'
import { heldItems, type Taken as Due } from '../data/open_rollouts.ts'
import type { Rollout } from '../data/rollout.ts'
import { routeKey, splitKey, type GroupBy } from '../data/routing.ts'
import type { RawItem } from '../data/span_batch.ts'
import { arrived, extentsOf, readBack, type Extent, type Limits } from './read_back.ts'
import type { Storage } from './storage.ts'

/** A rollout that cannot be assembled, or written as rows, however often it is tried: a defect of ours, which must not hold up the others. */
export class Unassemblable extends Error {
  override name = 'Unassemblable'
}

/** How rollouts are made of what arrived. */
export interface Assembling extends Limits {
  readonly dialects: readonly Dialect[]
  readonly group_by: GroupBy
  readonly join_keys: readonly string[]
}

/** The next revisions of some of the rollouts: no more at once than memory has room for. */
interface Portion {
  /** One for each rollout; two that storage knows to be one become one, and one that another takes over an empty one. */
  readonly revisions: Rollout[]
  /** Spans and log records that found no room in their rollouts. */
  readonly beyond: number
}

/** Bytes of spans that are read at once, as long as no single rollout has more. */
const TOGETHER = 4 << 20

/** Rejects as Unassemblable where one of the rollouts cannot be read, else with what storage says. */
export async function* nextRevisions(storage: Storage, due: readonly Due[], assembling: Assembling): AsyncGenerator<Portion> {
  const { dialects, join_keys } = assembling
  const read = itemReader(dialects, join_keys)
  const owners = new Map<string, string>()
  const traces = [...new Set(due.flatMap(({ rollout }) => [...rollout.traces]))]
  for (const { trace_id, rollout_id, attempt_id } of await storage.members(traces)) owners.set(trace_id, routeKey(rollout_id, attempt_id))
  const members = new Set(owners.keys())
  const takenOver = await takeOver(storage, due, owners)

  const parts = byKey(due, owners)
  const revisions = await storage.lastRevisions([...parts.keys()].map(splitKey))
  const revised = [...revisions.keys()].map(splitKey)
  const full = await storage.closedBySize(revised)
  let beyond = 0
  for (const key of full) {
    beyond += await hearRewards(key, parts.get(key)!)
    parts.delete(key)
  }
  if (beyond > 0) yield { revisions: [], beyond }

  const growing = new Set(takenOver.map(({ by }) => by))
  const isDoubtful = (key: string) => growing.has(key) || parts.get(key)!.some(({ rollout }) => rollout.doubtful)
  const isNew = (key: string) => !revisions.has(key) && !isDoubtful(key)
  const isPartial = ([key, part]: [string, Due[]]) => revisions.has(key) || growing.has(key) || part.some(({ rollout }) => !rollout.held)
  const partial = new Map([...parts].filter(isPartial))
  const extents = await extentsOf(storage, partial, isNew, owners)
  const covered = await storage.coveredByOld(revised)

  const portions = portionsOf(parts, extents, assembling)
  const readAhead = (n: number) => {
    const back = readBack(storage, portions[n]!.extents, owners, assembling)
    back.catch(() => {}) // it is told where it is waited for
    return back
  }
  let ahead: ReturnType<typeof readBack> | null = null
  for (const [n, { keys, bytes }] of portions.entries()) {
    const back = await (ahead ?? readAhead(n))
    ahead = n + 1 < portions.length && bytes + portions[n + 1]!.bytes <= 2 * TOGETHER ? readAhead(n + 1) : null
    const rollouts: Rollout[] = []
    for (const key of keys) {
      await giveWay()
      const part = parts.get(key)!
      const items = partial.has(key) ? drained(back.items.get(key) ?? [], read) : heldItems(heldOf(part), read)
      const last = revisions.get(key)
      // A process that was killed may have a write on its way still, under a number that nobody sees yet.
      // And what is taken over is no first revision: its rewards may be known.
      const skipped = isDoubtful(key) ? 1 : 0
      const rollout = assembled(items, dialects, {
        key,
        closed_by: back.cut.get(key) ?? (last === undefined ? part[0]!.closed_by : 'late'),
        revision: (last ?? 0) + skipped + 1,
        join_keys,
        covered_until: newestArrival(part),
      })
      rollouts.push(back.cut.has(key) ? { ...rollout, complete: false } : rollout)
    }
    // What has lost spans since its last revision must not lose its transitions with them: only rewards are still heard.
    const expired = new Set(rollouts.filter((rollout) => rollout.spans < (covered.get(keyOf(rollout)) ?? 0)))
    for (const rollout of expired) await storage.addRewards(rollout, rollout.rewards)
    const emptied = takenOver
      .filter(({ by }) => keys.includes(by))
      .map(({ key, last }) => assembled([], dialects, { key, closed_by: 'late', revision: last + 1, covered_until: steadyNow() }))
    yield { revisions: [...rollouts.filter((rollout) => !expired.has(rollout)), ...emptied], beyond: back.beyond }
  }

  /** A rollout that was closed for its size takes in nothing more, whatever comes. Returns how much that was. */
  async function hearRewards(key: string, part: readonly Due[]): Promise<number> {
    const own = part.flatMap(({ rollout }) => [...rollout.traces])
    const rest = () =>
      storage.readItems(
        own.filter((trace) => !members.has(trace)),
        { keys: [key], most: REWARDS },
      )
    const items = part.every(({ rollout }) => rollout.held) ? heldItems(heldOf(part), read) : drained(await rest(), read)
    const { rewards, ...rollout } = assembled(items, dialects, { key, closed_by: 'late', revision: 0, covered_until: newestArrival(part) })
    if (rewards.length > 0) await storage.addRewards(rollout, rewards)
    return part.reduce((sum, { rollout }) => sum + rollout.count, 0)
  }
}

/** More is not read of what came too late for a rollout that is full. */
const REWARDS = { items: 10_000, bytes: 1 << 20 }

interface ToRead {
  readonly keys: string[]
  /** Of those that are read back. */
  readonly extents: Map<string, Extent>
  bytes: number
}

function portionsOf(parts: ReadonlyMap<string, Due[]>, extents: ReadonlyMap<string, Extent>, { max_bytes }: Limits): ToRead[] {
  const portions: ToRead[] = []
  for (const [key, part] of parts) {
    const extent = extents.get(key)
    const bytes = Math.min((extent ?? arrived(part)).bytes, max_bytes)
    let portion = portions.at(-1)
    if (!portion || portion.bytes + bytes > TOGETHER) portions.push((portion = { keys: [], extents: new Map(), bytes: 0 }))
    portion.keys.push(key)
    if (extent) portion.extents.set(key, extent)
    portion.bytes += bytes
  }
  return portions
}

const heldOf = (part: readonly Due[]) => part.map(({ rollout }) => rollout.held!)

const newestArrival = (part: readonly Due[]): number => Math.max(...part.map(({ rollout }) => rollout.last_at))

/** Of a huge rollout what was read of one item, and its bytes, are let go before the next. */
function* drained(raws: RawItem[], read: ItemReader): Generator<ReturnType<ItemReader>> {
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
      // What came before this process may have been taken over by a process that was killed before it could say so.
      else if (!claims.has(own) && (owners.get(trace) === own || rollout.doubtful)) claims.set(own, rollout.key)
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
