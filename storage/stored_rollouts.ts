// Rows of `rollouts` read back, to be credited again or compared.

import { LONG_STATEMENT, SMALL_STATEMENT, textList, textRows } from './literals.ts'
import type { Writer } from './credit_rows.ts'
import { routeKey } from '../data/routing.ts'
import type { RolloutRow } from './rollout_rows.ts'
import type { KnownRollout } from './storage.ts'
import {
  isAtEnd,
  openReader,
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

/** Group ids of these rollouts. Those that do not come with theirs are looked up. */
export async function groupsOf({ client, run }: Deps, rollouts: readonly KnownRollout[]): Promise<string[]> {
  const groups = new Set(rollouts.flatMap(({ group_id }) => group_id || []))
  const others = new Set(rollouts.flatMap(({ rollout_id, group_id }) => (group_id === undefined ? rollout_id : [])))
  if (others.size > 0) {
    const query = `SELECT DISTINCT group_id FROM rollouts WHERE tenant = '' AND rollout_id IN ${textList(others)} AND group_id != ''`
    const answer = await run(() => client.query({ query, format: 'JSONEachRow', clickhouse_settings: LONG_STATEMENT }))
    for (const { group_id } of await answer.json<{ group_id: string }>()) groups.add(group_id)
  }
  return [...groups]
}

/** All that may be of these groups, and these without a group, if they were ever credited: group by group, in the order in which they began. */
export async function rolloutsOfGroups(deps: Deps, groups: readonly string[], alone: readonly string[] = []): Promise<StoredRollouts> {
  const members = `SELECT rollout_id FROM rollouts WHERE tenant = '' AND group_id IN ${textList(groups)}`
  return readRollouts(deps, alone.length > 0 ? `${members} UNION ALL ${textRows(alone)}` : members, groups.length + alone.length > MANY)
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

/** The snapshot is taken first of all: what a revision names there was written before. */
async function readRollouts({ client, run }: Deps, ids: string, many: boolean): Promise<StoredRollouts> {
  const query = `
    SELECT tenant, rollout_id, attempt_id, task_id, group_id, group_size, mode, status, closed_by, complete, revision, started_at, ended_at,
      spans, covered_until, calls, transitions, outcome, air_mode, credit, agents, returns, next, air, rewards
    FROM rollouts FINAL WHERE tenant = '' AND rollout_id IN (${ids}) AND credit != '' ORDER BY group_id, started_at, attempt_id
    FORMAT RowBinary`
  const clickhouse_settings = { ...LONG_STATEMENT, ...(many ? {} : SMALL_STATEMENT) }
  const { stream } = await run(() => client.exec({ query, clickhouse_settings }))
  const { bytes } = await openReader(stream)
  return { [Symbol.iterator]: () => rowsIn({ bytes, at: 0 }) }
}

function* rowsIn(reader: Reader): Generator<RolloutRow> {
  while (!isAtEnd(reader)) yield readRollout(reader)
}

function readRollout(reader: Reader): RolloutRow {
  return {
    tenant: readString(reader),
    rollout_id: readString(reader),
    attempt_id: readString(reader),
    task_id: readString(reader),
    group_id: readString(reader),
    group_size: readUInt32(reader),
    mode: readString(reader) as RolloutRow['mode'],
    status: readString(reader) as RolloutRow['status'],
    closed_by: readString(reader) as RolloutRow['closed_by'],
    complete: readUInt8(reader) === 1,
    revision: readUInt32(reader),
    started_at: readInt64(reader),
    ended_at: readInt64(reader),
    spans: readUInt64(reader),
    covered_until: readUInt64(reader),
    calls: readUInt32(reader),
    transitions: readUInt32(reader),
    outcome: readNullable(reader, readFloat64),
    air_mode: readString(reader) as RolloutRow['air_mode'],
    credit: readString(reader),
    agents: readArray(reader, readString),
    returns: readArray(reader, readReturn),
    next: readArray(reader, readInt32),
    air: readArray(reader, readFloat64),
    rewards: readString(reader),
  }
}

const readReturn = (reader: Reader): number | null => readNullable(reader, readFloat64)
