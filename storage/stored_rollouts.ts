// Rows of `rollouts` read back, to be credited again or compared.

import type { RolloutKey } from './reward_targets.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList, textRows } from './literals.ts'
import type { Writer } from './credit_rows.ts'
import type { RolloutRow } from './rollout_rows.ts'
import {
  isAtEnd,
  openReader,
  readArray,
  readBytes,
  readFloat64,
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

/** Those that were ever credited, group by group, in the order in which they began. */
export const rolloutsOfGroups = (deps: Deps, groups: readonly string[]): Promise<StoredRollouts> =>
  readRollouts(deps, `rollout_id IN (SELECT rollout_id FROM rollouts WHERE group_id IN ${textList(groups)})`, "''", groups.length > MANY)

/** Those of these that were ever credited and all that may be in their groups, which come without outline; group by group as well. */
export function rolloutsWithGroups(deps: Deps, rollouts: readonly RolloutKey[]): Promise<StoredRollouts> {
  const own = new Set(rollouts.map(({ rollout_id }) => rollout_id))
  const ids = textList(own)
  const groups = `SELECT group_id FROM rollouts WHERE tenant = '' AND rollout_id IN ${ids} AND group_id != ''`
  return readRollouts(
    deps,
    `rollout_id IN (${textRows(own)} UNION ALL SELECT rollout_id FROM rollouts WHERE group_id IN (${groups}))`,
    `if(rollout_id IN ${ids}, outline, '')`,
    rollouts.length > MANY,
  )
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
async function readRollouts({ client, run }: Deps, which: string, outline: string, many: boolean): Promise<StoredRollouts> {
  const query = `
    SELECT tenant, rollout_id, attempt_id, task_id, group_id, group_size, mode, status, closed_by, complete, revision, started_at, ended_at,
      spans, covered_until, calls, transitions, outcome, air_mode, credit, agents, returns, rewards, ${outline}
    FROM rollouts FINAL WHERE tenant = '' AND ${which} AND credit != '' ORDER BY group_id, started_at, attempt_id
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
    rewards: readString(reader),
    outline: readBytes(reader),
  }
}

const readReturn = (reader: Reader): number | null => readNullable(reader, readFloat64)
