// Credit on its way into `transition_rows`: one lightweight UPDATE however many groups are concerned. Every row carries the version of
// its group's credit, so that as long as an UPDATE is under way, or `credits` does not name that version yet, readers of whole groups
// leave the group alone. Where a server has no such UPDATE, the rows are written again as the next revision of their rollouts, which
// differs in nothing else.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

import type { AssignedStep } from '../credit/assign.ts'
import type { Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { passes } from './availability.ts'
import { SMALL_STATEMENT } from './literals.ts'
import { openRows, putArray, putFloat64, putMap, putNullable, putString, putUInt32, putUInt8, written, type Rows } from './row_binary.ts'
import { withStaging } from './staging.ts'

export interface CreditRows {
  readonly rollouts: RevisionKey[]
  readonly rows: Rows
  /** Whether some have returns of their own; else advantages alone are new. */
  readonly anew: boolean
}

export const openCreditRows = (anew: boolean): CreditRows => ({ rollouts: [], rows: openRows(), anew })

type RevisionKey = Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision'>

/** So many steps of a rollout go into one staged row: each of its transitions is handed the whole row. */
const STEPS = 32

/**
 * @param advantages of each step @param version null where the rollout has no group, or one that is not credited yet
 * @param assigned the steps where their returns are new, too
 */
export function putCredit(
  { rollouts, rows, anew }: CreditRows,
  rollout: RevisionKey,
  advantages: readonly (number | null)[],
  version: number | null,
  assigned?: readonly AssignedStep[],
): void {
  if (advantages.length > 0) rollouts.push(rollout)
  const { rollout_id, attempt_id, revision } = rollout
  for (let first = 0; first < advantages.length; first += STEPS) {
    putString(rows, `${rollout_id}\0${attempt_id}\0${revision}\0${first / STEPS}`)
    putString(rows, rollout_id)
    putArray(rows, advantages.slice(first, first + STEPS), putNumber)
    putNullable(rows, version, putUInt32)
    if (anew) putAssigned(rows, assigned?.slice(first, first + STEPS))
    rows.count++
  }
}

function putAssigned(rows: Rows, steps: readonly AssignedStep[] = []): void {
  putUInt8(rows, steps.length > 0 ? 1 : 0)
  putArray(rows, steps, (to, t) => putNumber(to, t.reward_outcome))
  putArray(rows, steps, (to, t) => putNumber(to, t.reward_intermediate))
  putArray(rows, steps, (to, t) => putMap(to, t.reward_parts, putFloat64))
  putArray(rows, steps, (to, t) => putNumber(to, t.return))
  putArray(rows, steps, (to, t) => putString(to, t.credit_method))
}

const putNumber = (rows: Rows, value: number | null) => putNullable(rows, value, putFloat64)

const KEY = `concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision), '\\0', toString(intDiv(step, ${STEPS})))`

/** By step, but for the version. */
const COMPARED = { advantage: 'Array(Nullable(Float64))', credit_version: 'Nullable(UInt32)' }
const ASSIGNED = {
  reward_outcome: 'Array(Nullable(Float64))',
  reward_intermediate: 'Array(Nullable(Float64))',
  reward_parts: 'Array(Map(LowCardinality(String), Float64))',
  return: 'Array(Nullable(Float64))',
  credit_method: 'Array(LowCardinality(String))',
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

const columnsOf = (anew: boolean) => ({ ...COMPARED, ...(anew ? { assigned: 'Bool', ...ASSIGNED } : {}) })

/** Credit on its way: a table for it, which is made while others read. One tuple, so that each row is looked up once. */
export function withCreditStaging(writer: Writer, anew: boolean, use: (staging: Promise<string>) => Promise<void>): Promise<void> {
  const types = Object.entries(columnsOf(anew)).map(([name, type]) => `${name} ${type}`)
  return withStaging(commands(writer), `key String, rollout_id String, row Tuple(${types.join(', ')})`, use)
}

/** Numbers of the revisions that credit for these rollouts makes, by routeKey: none where rows can be updated. */
export async function revisionsAnew(writer: Writer, rollouts: readonly RevisionKey[]): Promise<Map<string, number>> {
  return (await writer.canUpdate()) ? new Map() : writer.nextRevisions(rollouts)
}

/** @param revisions see revisionsAnew: whoever stores a rollout's row commits its own */
export async function writeCredit(
  writer: Writer,
  { rollouts, rows, anew }: CreditRows,
  revisions: ReadonlyMap<string, number>,
  made: Promise<string>,
): Promise<void> {
  if (rows.count === 0) return
  const staging = await made
  await writer.insert(staging, 'key, rollout_id, row', written(rows), randomUUID())
  const value = (column: string, key: string) => {
    const staged = (name: string) => `tupleElement(joinGet(${staging}, 'row', ${key}), '${name}')`
    if (column === 'credit_version') return staged(column)
    const own = `${staged(column)}[step % ${STEPS} + 1]`
    return column in COMPARED ? own : `if(${staged('assigned')}, ${own}, ${column})`
  }
  const set = [...Object.keys(COMPARED), ...(anew ? Object.keys(ASSIGNED) : [])]
  if (revisions.size === 0) await update(writer, staging, set, value)
  else await revise(writer, rollouts, revisions, staging, set, value)
}

/** What becomes of a column, in SQL. */
type Value = (column: string, key: string) => string

const these = (staging: string) => `tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${staging})`

const update = (writer: Writer, staging: string, set: readonly string[], value: Value) =>
  commands(writer).command(`
    UPDATE transition_rows SET ${set.map((column) => `${column} = ${value(column, KEY)}`).join(', ')}
    WHERE ${these(staging)} AND ${KEY} IN (SELECT key FROM ${staging})`)

const commands = ({ client, run }: Writer) => ({
  command: (query: string) => run(() => client.command({ query, clickhouse_settings: SMALL_STATEMENT })),
})

const REVISION_KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision))"

/** What belongs to a revision comes along. The last of it is the row of `rollouts`, which commits it. */
async function revise(
  writer: Writer,
  rollouts: readonly RevisionKey[],
  numbers: ReadonlyMap<string, number>,
  staging: string,
  set: readonly string[],
  value: Value,
): Promise<void> {
  const { command } = commands(writer)
  const rows = openRows()
  for (const { rollout_id, attempt_id, revision } of rollouts) {
    putString(rows, `${rollout_id}\0${attempt_id}\0${revision}`)
    putString(rows, rollout_id)
    putUInt32(rows, numbers.get(routeKey(rollout_id, attempt_id))!)
    rows.count++
  }
  await withStaging({ command }, 'key String, rollout_id String, next UInt32', async (made) => {
    const next = await made
    await writer.insert(next, 'key, rollout_id, next', written(rows), randomUUID())
    const numbered = (stamp: string) => `joinGet(${next}, 'next', revision_key) AS revision, now64(3) AS ${stamp}`
    await command(`
      INSERT INTO transition_rows
      SELECT * EXCEPT (step_key, revision_key)
        REPLACE (${set.map((column) => `${value(column, 'step_key')} AS ${column}`).join(', ')}, ${numbered('inserted_at')})
      FROM (SELECT *, ${KEY} AS step_key, ${REVISION_KEY} AS revision_key FROM transition_rows WHERE ${these(staging)})
      WHERE step_key IN (SELECT key FROM ${staging})`)
    for (const [table, stamp] of [
      ['rejects', 'inserted_at'],
      ['rollouts', 'committed_at'],
    ] as const) {
      await command(`
        INSERT INTO ${table} SELECT * EXCEPT (revision_key) REPLACE (${numbered(stamp)})
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
