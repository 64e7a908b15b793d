// Rows of `rollouts` read back, to be credited again or compared.

import type { RolloutKey } from './reward_targets.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
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

/** Those that were ever credited, in the order in which they began. */
export const rolloutsOfGroups = (deps: Deps, groups: readonly string[]): Promise<RolloutRow[]> =>
  readRollouts(deps, `rollout_id IN (SELECT rollout_id FROM rollouts WHERE group_id IN ${textList(groups)})`, "''")

/** Those of these that were ever credited and all that may be in their groups, which come without outline. */
export function rolloutsWithGroups(deps: Deps, rollouts: readonly RolloutKey[]): Promise<RolloutRow[]> {
  const ids = textList(new Set(rollouts.map(({ rollout_id }) => rollout_id)))
  const groups = `SELECT group_id FROM rollouts WHERE tenant = '' AND rollout_id IN ${ids} AND group_id != ''`
  const own = `SELECT rollout_id FROM rollouts WHERE tenant = '' AND rollout_id IN ${ids}`
  return readRollouts(
    deps,
    `rollout_id IN (${own} UNION ALL SELECT rollout_id FROM rollouts WHERE group_id IN (${groups}))`,
    `if(rollout_id IN ${ids}, outline, '')`,
  )
}

/** The snapshot is taken first of all: what a revision names there was written before. */
async function readRollouts({ client, run }: Deps, which: string, outline: string): Promise<RolloutRow[]> {
  const query = `
    SELECT tenant, rollout_id, attempt_id, task_id, group_id, group_size, mode, status, closed_by, complete, revision, started_at, ended_at,
      spans, covered_until, calls, transitions, outcome, air_mode, credit, agents, returns, rewards, ${outline}
    FROM rollouts FINAL WHERE tenant = '' AND ${which} AND credit != '' ORDER BY started_at, attempt_id
    FORMAT RowBinary`
  const { stream } = await run(() => client.exec({ query, clickhouse_settings: { ...LONG_STATEMENT, ...SMALL_STATEMENT } }))
  const reader = await openReader(stream)
  const rows: RolloutRow[] = []
  while (!isAtEnd(reader)) rows.push(readRollout(reader))
  return rows
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
