// Rows of `rollouts` read back, to be credited again or compared.

import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import type { Writer } from './credit_rows.ts'
import { routeKey } from '../data/routing.ts'
import type { RolloutRow } from './rollout_rows.ts'
import type { KnownRollout } from './storage.ts'
import {
  isAtEnd,
  noneYet,
  openReader,
  readAgain,
  readArray,
  readBytes,
  readFloat64,
  readInt32,
  readInt64,
  readNullable,
  readString,
  readUInt32,
  readUInt64,
  readUInt8,
  type Reader,
} from './row_reader.ts'

type Deps = Pick<Writer, 'client' | 'run'>

/** Rows are made of the answer's bytes as they are asked for: what is held costs more to collect than it took to make. */
export type StoredRollouts = Iterable<RolloutRow>

/** So many are read by more than one thread. */
const MANY = 1_000
/** So many groups, or rollouts without one, are read together. */
const TOGETHER = 640

/** Groups of these rollouts, and which of them have none. Those that do not come with their group's id are looked up. */
export async function groupsOf(
  { client, run }: Deps,
  rollouts: readonly KnownRollout[],
): Promise<{ readonly groups: string[]; readonly alone: string[] }> {
  const groups = new Set<string>()
  const alone = new Set<string>()
  const unknown = new Set<string>()
  for (const { rollout_id, group_id } of rollouts) {
    if (group_id) groups.add(group_id)
    else alone.add(rollout_id)
    if (group_id === undefined) unknown.add(rollout_id)
  }
  if (unknown.size > 0) {
    const query = `SELECT DISTINCT rollout_id, group_id FROM rollouts WHERE tenant = '' AND rollout_id IN ${textList(unknown)} AND group_id != ''`
    const answer = await run(() => client.query({ query, format: 'JSONEachRow', clickhouse_settings: LONG_STATEMENT }))
    for (const { rollout_id, group_id } of await answer.json<{ rollout_id: string; group_id: string }>()) {
      groups.add(group_id)
      alone.delete(rollout_id)
    }
  }
  return { groups: [...groups], alone: [...alone] }
}

/**
 * Those of these groups, and these if they have none, as far as they were ever credited: group by group, and so many groups after the others. The
 * first are on their way from now on, and while some are looked at, the next are.
 */
export function rolloutsOfGroups(deps: Deps, groups: readonly string[], alone: readonly string[] = []): AsyncGenerator<StoredRollouts> {
  return oneAhead([
    ...inPortions(groups).map((ids) => () => readRollouts(deps, ids, true)),
    ...inPortions(alone).map((ids) => () => readRollouts(deps, ids, false)),
  ])
}

const inPortions = (ids: readonly string[]): string[][] =>
  Array.from({ length: Math.ceil(ids.length / TOGETHER) }, (_, i) => ids.slice(i * TOGETHER, (i + 1) * TOGETHER))

/** What these tasks resolve with, in their order. One is under way while what came before it is looked at. */
function oneAhead<T>(tasks: readonly (() => Promise<T>)[]): AsyncGenerator<T> {
  const start = (i: number) => {
    const task = tasks[i]?.()
    // Nobody need hear of one that is not waited for any more.
    task?.catch(() => {})
    return task
  }
  let next = start(0)
  return (async function* () {
    for (let i = 1; next; i++) {
      const value = await next
      next = start(i)
      yield value
    }
  })()
}

/** Of these revisions, by routeKey: JSON. */
export async function outlinesOf({ client, run }: Deps, rollouts: readonly RolloutRow[]): Promise<Map<string, Buffer>> {
  const revisions = new Map(rollouts.map((row) => [routeKey(row.rollout_id, row.attempt_id), row.revision]))
  const query = `
    SELECT rollout_id, attempt_id, revision, outline FROM outlines
    WHERE tenant = '' AND rollout_id IN ${textList(rollouts.map(({ rollout_id }) => rollout_id))}
    FORMAT RowBinary`
  const clickhouse_settings = { ...LONG_STATEMENT, ...(rollouts.length > MANY ? {} : SMALL_STATEMENT) }
  const { stream } = await run(() => client.exec({ query, clickhouse_settings }))
  const reader = await openReader(stream)
  const found = new Map<string, Buffer>()
  while (!isAtEnd(reader)) {
    const key = routeKey(readString(reader), readString(reader))
    const isLive = readUInt32(reader) === revisions.get(key)
    const outline = readBytes(reader)
    if (isLive) found.set(key, outline)
  }
  return found
}

/** Those that stand together, with the id of their group; '' for those that have none. */
export function* byGroup(rollouts: StoredRollouts): Generator<readonly [string, readonly RolloutRow[]]> {
  let own: RolloutRow[] = []
  for (const row of rollouts) {
    if (own.length > 0 && own[0]!.group_id !== row.group_id) {
      yield [own[0]!.group_id, own]
      own = []
    }
    own.push(row)
  }
  if (own.length > 0) yield [own[0]!.group_id, own]
}

/**
 * The snapshot is taken first of all: what a revision names there was written before. Rows are told by their key before FINAL merges them, which
 * ClickHouse does by itself only where it is told so: a quarter less for thousands, two fifths for one group.
 */
async function readRollouts({ client, run }: Deps, ids: readonly string[], ofGroups: boolean): Promise<StoredRollouts> {
  const rollouts = ofGroups ? `(SELECT rollout_id FROM rollouts WHERE tenant = '' AND group_id IN ${textList(ids)})` : textList(ids)
  const query = `
    SELECT tenant, rollout_id, attempt_id, task_id, group_id, group_size, mode, status, closed_by, complete, revision, started_at, ended_at,
      spans, covered_until, calls, transitions, outcome, air_mode, credit, agents, returns, next, air, rewards
    FROM rollouts FINAL PREWHERE tenant = '' AND rollout_id IN ${rollouts} WHERE credit != '' ORDER BY group_id, started_at, attempt_id
    FORMAT RowBinary`
  const { stream } = await run(() => client.exec({ query, clickhouse_settings: { ...LONG_STATEMENT, ...SMALL_STATEMENT } }))
  const { bytes } = await openReader(stream)
  // One that was in one of these groups, or in none, may be in another by now.
  const wanted = new Set(ofGroups ? ids : [''])
  return { [Symbol.iterator]: () => rowsIn({ bytes, at: 0 }, wanted) }
}

function* rowsIn(reader: Reader, groups: ReadonlySet<string>): Generator<RolloutRow> {
  const last = lastOf()
  while (!isAtEnd(reader)) {
    const row = readRollout(reader, last)
    if (groups.has(row.group_id)) yield row
  }
}

/** Of the columns that are mostly alike in rollouts that stand together. */
const lastOf = () => ({
  ...{ tenant: noneYet<string>(), attempt_id: noneYet<string>(), task_id: noneYet<string>(), group_id: noneYet<string>() },
  ...{ mode: noneYet<string>(), status: noneYet<string>(), closed_by: noneYet<string>(), air_mode: noneYet<string>() },
  ...{ credit: noneYet<string>(), agents: noneYet<string[]>(), next: noneYet<number[]>() },
})

function readRollout(reader: Reader, last: ReturnType<typeof lastOf>): RolloutRow {
  return {
    tenant: readAgain(reader, last.tenant, readString),
    rollout_id: readString(reader),
    attempt_id: readAgain(reader, last.attempt_id, readString),
    task_id: readAgain(reader, last.task_id, readString),
    group_id: readAgain(reader, last.group_id, readString),
    group_size: readUInt32(reader),
    mode: readAgain(reader, last.mode, readString) as RolloutRow['mode'],
    status: readAgain(reader, last.status, readString) as RolloutRow['status'],
    closed_by: readAgain(reader, last.closed_by, readString) as RolloutRow['closed_by'],
    complete: readUInt8(reader) === 1,
    revision: readUInt32(reader),
    started_at: readInt64(reader),
    ended_at: readInt64(reader),
    spans: readUInt64(reader),
    covered_until: readUInt64(reader),
    calls: readUInt32(reader),
    transitions: readUInt32(reader),
    outcome: readNullable(reader, readFloat64),
    air_mode: readAgain(reader, last.air_mode, readString) as RolloutRow['air_mode'],
    credit: readAgain(reader, last.credit, readString),
    agents: readAgain(reader, last.agents, readAgents),
    returns: readArray(reader, readReturn),
    next: readAgain(reader, last.next, readNext),
    air: readArray(reader, readFloat64),
    rewards: readString(reader),
  }
}

const readAgents = (reader: Reader): string[] => readArray(reader, readString)
const readNext = (reader: Reader): number[] => readArray(reader, readInt32)
const readReturn = (reader: Reader): number | null => readNullable(reader, readFloat64)
