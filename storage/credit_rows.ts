// Credit on its way into `transition_rows`: what was assigned anew, and what is only compared with something else, each in one
// lightweight UPDATE however many groups are concerned. Every row carries the version of its group's credit, so that as long as
// an UPDATE is under way, or `credits` does not name that version yet, readers of whole groups leave the group alone. Where a server
// has no such UPDATE, the rows are written again as the next revision of their rollouts, which differs in nothing else.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

import type { Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { passes } from './availability.ts'
import type { CreditedStep } from './recredit.ts'
import { openRows, putFloat64, putMap, putNullable, putString, putUInt32, written, type Rows } from './row_binary.ts'
import { withStaging } from './staging.ts'

export interface CreditRows {
  readonly rollouts: Map<string, RevisionKey>
  /** Rows with returns of their own. */
  readonly assigned: Rows
  /** Rows whose advantage alone is new. */
  readonly compared: Rows
}

export const openCreditRows = (): CreditRows => ({ rollouts: new Map(), assigned: openRows(), compared: openRows() })

type RevisionKey = Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision'>

export function putCompared(
  { rollouts, compared }: CreditRows,
  rollout: RevisionKey,
  step: number,
  advantage: number | null,
  version: number,
): void {
  rollouts.set(routeKey(rollout.rollout_id, rollout.attempt_id), rollout)
  putKey(compared, rollout, step)
  putNullable(compared, advantage, putFloat64)
  putNullable(compared, version, putUInt32)
  compared.count++
}

/** @param version null where the rollout has no group, or one that is not credited yet */
export function putAssigned(
  { rollouts, assigned }: CreditRows,
  rollout: RevisionKey,
  t: CreditedStep,
  advantage: number | null,
  version: number | null,
): void {
  rollouts.set(routeKey(rollout.rollout_id, rollout.attempt_id), rollout)
  putKey(assigned, rollout, t.step)
  putNullable(assigned, advantage, putFloat64)
  putNullable(assigned, version, putUInt32)
  putNullable(assigned, t.reward_outcome, putFloat64)
  putNullable(assigned, t.reward_intermediate, putFloat64)
  putMap(assigned, t.reward_parts, putFloat64)
  putNullable(assigned, t.return, putFloat64)
  putString(assigned, t.credit_method)
  assigned.count++
}

const KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision), '\\0', toString(step))"

function putKey(rows: Rows, { rollout_id, attempt_id, revision }: RevisionKey, step: number): void {
  putString(rows, `${rollout_id}\0${attempt_id}\0${revision}\0${step}`)
  putString(rows, rollout_id)
}

const COMPARED = { advantage: 'Nullable(Float64)', credit_version: 'Nullable(UInt32)' }
const ASSIGNED = {
  ...COMPARED,
  reward_outcome: 'Nullable(Float64)',
  reward_intermediate: 'Nullable(Float64)',
  reward_parts: 'Map(LowCardinality(String), Float64)',
  return: 'Nullable(Float64)',
  credit_method: 'LowCardinality(String)',
}

export interface Writer {
  readonly client: ClickHouseClient
  run<T>(attempt: () => Promise<T>): Promise<T>
  insert(table: string, columns: string, rows: Buffer, token: string): Promise<void>
  /** Whether the server has lightweight UPDATE. */
  canUpdate(): Promise<boolean>
  /** A number for each rollout's next revision that nobody used yet, by routeKey. */
  nextRevisions(rollouts: readonly RevisionKey[]): Promise<Map<string, number>>
}

/** @returns the revisions that were written, by routeKey: none where rows could be updated. Whoever stores a rollout's row commits its own. */
export async function writeCredit(writer: Writer, { rollouts, assigned, compared }: CreditRows): Promise<Map<string, number>> {
  if (rollouts.size === 0) return new Map()
  if (await writer.canUpdate()) {
    const update = (staging: string, columns: readonly string[]) => {
      const set = columns.map((column) => `${column} = joinGet(${staging}, '${column}', ${KEY})`)
      return `UPDATE transition_rows SET ${set.join(', ')} WHERE ${these(staging)} AND ${KEY} IN (SELECT key FROM ${staging})`
    }
    await Promise.all([stage(writer, assigned, ASSIGNED, update), stage(writer, compared, COMPARED, update)])
    return new Map()
  }
  const numbers = await writer.nextRevisions([...rollouts.values()])
  await revise(writer, [...rollouts.values()], numbers, async (next) => {
    const insert = (staging: string, columns: readonly string[]) => {
      const set = columns.map((column) => `joinGet(${staging}, '${column}', step_key) AS ${column}`)
      return `
        INSERT INTO transition_rows
        SELECT * EXCEPT (step_key, revision_key)
          REPLACE (${set.join(', ')}, joinGet(${next}, 'next', revision_key) AS revision, now64(3) AS inserted_at)
        FROM (SELECT *, ${KEY} AS step_key, ${REVISION_KEY} AS revision_key FROM transition_rows WHERE ${these(staging)})
        WHERE step_key IN (SELECT key FROM ${staging})`
    }
    await stage(writer, assigned, ASSIGNED, insert)
    await stage(writer, compared, COMPARED, insert)
  })
  return numbers
}

const these = (staging: string) => `tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${staging})`

async function stage(
  { client, run, insert }: Writer,
  rows: Rows,
  columns: Readonly<Record<string, string>>,
  statement: (staging: string, columns: readonly string[]) => string,
): Promise<void> {
  if (rows.count === 0) return
  const command = (query: string) => run(() => client.command({ query }))
  const names = Object.keys(columns)
  const types = names.map((name) => `${name} ${columns[name]}`)
  await withStaging({ command }, `key String, rollout_id String, ${types.join(', ')}`, async (staging) => {
    await insert(staging, `key, rollout_id, ${names.join(', ')}`, written(rows), randomUUID())
    await command(statement(staging, names))
  })
}

const REVISION_KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision))"

/** What belongs to a revision beside its transitions comes along. The last of it is the row of `rollouts`, which commits it. */
async function revise(
  { client, run, insert }: Writer,
  rollouts: readonly RevisionKey[],
  numbers: ReadonlyMap<string, number>,
  writeTransitions: (next: string) => Promise<void>,
): Promise<void> {
  const command = (query: string) => run(() => client.command({ query }))
  const rows = openRows()
  for (const { rollout_id, attempt_id, revision } of rollouts) {
    putString(rows, `${rollout_id}\0${attempt_id}\0${revision}`)
    putString(rows, rollout_id)
    putUInt32(rows, numbers.get(routeKey(rollout_id, attempt_id))!)
    rows.count++
  }
  await withStaging({ command }, 'key String, rollout_id String, next UInt32', async (next) => {
    await insert(next, 'key, rollout_id, next', written(rows), randomUUID())
    await writeTransitions(next)
    for (const [table, stamp] of [
      ['rejects', 'inserted_at'],
      ['rollouts', 'committed_at'],
    ] as const) {
      await command(`
        INSERT INTO ${table}
        SELECT * EXCEPT (revision_key) REPLACE (joinGet(${next}, 'next', revision_key) AS revision, now64(3) AS ${stamp})
        FROM (SELECT *, ${REVISION_KEY} AS revision_key FROM ${table} WHERE ${these(next)}) WHERE revision_key IN (SELECT key FROM ${next})`)
    }
  })
}

/** Asks once; a server does not learn it while it runs. */
export function updateProbe(client: ClickHouseClient): Writer['canUpdate'] {
  let can: boolean | undefined
  return async () => {
    if (can !== undefined) return can
    try {
      await client.command({ query: 'UPDATE transition_rows SET advantage = advantage WHERE 0' })
      can = true
    } catch (error) {
      if (passes(error)) return true // whoever writes will be told
      can = false
    }
    return can
  }
}
