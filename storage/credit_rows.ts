// Credit on its way into `transition_rows`: one lightweight UPDATE, or two, however many groups are concerned. Every row carries the version of
// its group's credit, so that as long as an UPDATE is under way, or `credits` does not name that version yet, readers of whole groups
// leave the group alone. Where a server has no such UPDATE, the rows are written again as the next revision of their rollouts, which
// differs in nothing else.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client'

import type { AssignedStep } from '../credit/assign.ts'
import type { Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { passes } from './availability.ts'
import { literal, LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import type { IsStored } from './is_stored.ts'
import { openRows, putFloat64, putMap, putNullable, putString, putUInt32, putVarint, written, type Rows } from './row_binary.ts'
import { withStaging } from './staging.ts'

/** Credit of up to STEPS steps of a rollout: each of its transitions is handed the whole of it. */
interface Staged extends Given {
  readonly key: string
  readonly rollout_id: string
  /** Of its steps, the first. */
  readonly first: number
}

/** To a rollout. */
interface Given {
  /** Of each step. */
  readonly advantages: readonly (number | null)[]
  /** Null where the rollout has no group, or one that is not credited yet. */
  readonly version: number | null
  readonly assigned: Assigned | undefined
}

/** What every transition is given. Lists are by step. */
const COMPARED = { advantage: 'Array(Nullable(Float64))', credit_version: 'Nullable(UInt32)' }
/** What those of rollouts with new returns are. */
const ASSIGNED = {
  ...COMPARED,
  reward_outcome: 'Nullable(Float64)',
  reward_intermediate: 'Array(Nullable(Float64))',
  reward_parts: 'Array(Map(LowCardinality(String), Float64))',
  return: 'Array(Nullable(Float64))',
  credit_method: 'LowCardinality(String)',
}
type Columns = Readonly<Record<string, string>>

const STEPS = 32
/** So many need no table: they stand in the statement. */
const FEW = 64
/** From here on an UPDATE has more than one thread. */
const MANY = 1_000

/**
 * Those with new returns and those whose advantages alone are new are written apart: where some rows of an UPDATE keep a column as it is, ClickHouse
 * reads that column of all of them, and the patches of earlier credit with it.
 */
export interface CreditRows {
  readonly assigned: Part
  readonly compared: Part
}

interface Part {
  readonly columns: Columns
  readonly rollouts: RevisionKey[]
  readonly rows: Rows
  /** The first of them. */
  readonly few: Staged[]
}

export const openCreditRows = (): CreditRows => ({ assigned: openPart(ASSIGNED), compared: openPart(COMPARED) })
const openPart = (columns: Columns): Part => ({ columns, rollouts: [], rows: openRows(), few: [] })

type RevisionKey = Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision'>

/** A rollout with new returns. */
export interface Assigned {
  readonly outcome: number | null
  readonly steps: readonly AssignedStep[]
}

/** @param advantages of each step @param version null where the rollout has no group, or one that is not credited yet */
export function putCredit(
  credit: CreditRows,
  { rollout_id, attempt_id, revision, assigned }: RevisionKey & Pick<Given, 'assigned'>,
  advantages: readonly (number | null)[],
  version: number | null,
): void {
  const { rollouts, rows, few } = assigned ? credit.assigned : credit.compared
  // Not the rollout itself: what hangs on it would be kept for as long as thousands are credited, and moved by garbage collection.
  if (advantages.length > 0) rollouts.push({ rollout_id, attempt_id, revision })
  for (let first = 0; first < advantages.length; first += STEPS) {
    const key = `${rollout_id}\0${attempt_id}\0${revision}\0${first / STEPS}`
    const staged = { key, rollout_id, first, advantages, version, assigned }
    putStaged(rows, staged)
    if (few.length < FEW) few.push(staged)
  }
}

/** In the order of its columns. */
function putStaged(rows: Rows, { key, rollout_id, first, advantages, version, assigned }: Staged): void {
  putString(rows, key)
  putString(rows, rollout_id)
  putSome(rows, advantages, first, putNumber)
  putNullable(rows, version, putUInt32)
  if (assigned) {
    const { outcome, steps } = assigned
    putNumber(rows, outcome)
    putSome(rows, steps, first, putIntermediate)
    putSome(rows, steps, first, putParts)
    putSome(rows, steps, first, putReturn)
    putString(rows, steps[first]!.credit_method)
  }
  rows.count++
}

const putNumber = (rows: Rows, value: number | null) => putNullable(rows, value, putFloat64)
const putIntermediate = (rows: Rows, step: AssignedStep) => putNumber(rows, step.reward_intermediate)
const putParts = (rows: Rows, step: AssignedStep) => putMap(rows, step.reward_parts, putFloat64)
const putReturn = (rows: Rows, step: AssignedStep) => putNumber(rows, step.return)

/** Those of a list that stand in one row, as an array. */
function putSome<T>(rows: Rows, list: readonly T[], first: number, put: (rows: Rows, value: T) => void): void {
  const end = Math.min(list.length, first + STEPS)
  putVarint(rows, Math.max(0, end - first))
  for (let i = first; i < end; i++) put(rows, list[i]!)
}

function rowOf({ first, advantages, version, assigned }: Staged): Readonly<Record<string, unknown>> {
  const compared = { advantage: advantages.slice(first, first + STEPS), credit_version: version }
  if (!assigned) return compared
  const steps = assigned.steps.slice(first, first + STEPS)
  return {
    ...compared,
    reward_outcome: assigned.outcome,
    reward_intermediate: steps.map((t) => t.reward_intermediate),
    reward_parts: steps.map((t) => t.reward_parts),
    return: steps.map((t) => t.return),
    credit_method: steps[0]!.credit_method,
  }
}

export interface Writer {
  readonly client: ClickHouseClient
  run<T>(attempt: () => Promise<T>): Promise<T>
  insert(table: string, columns: string, rows: Buffer, token: string, isStored?: IsStored, abort?: AbortSignal): Promise<void>
  /** Whether the server has lightweight UPDATE. */
  canUpdate(): Promise<boolean>
  /** A number for each rollout's next revision that nobody used yet, by routeKey. */
  nextRevisions(rollouts: readonly RevisionKey[]): Promise<Map<string, number>>
}

/** Numbers of the revisions that credit for these rollouts makes, by routeKey: none where rows can be updated. */
export async function revisionsAnew(writer: Writer, rollouts: () => readonly RevisionKey[]): Promise<Map<string, number>> {
  return (await writer.canUpdate()) ? new Map() : writer.nextRevisions(rollouts())
}

/** @param revisions see revisionsAnew: whoever stores a rollout's row commits its own */
export async function writeCredit(
  writer: Writer,
  { assigned, compared }: CreditRows,
  revisions: ReadonlyMap<string, number>,
): Promise<void> {
  await Promise.all([writePart(writer, assigned, revisions), writePart(writer, compared, revisions)])
}

async function writePart(writer: Writer, part: Part, revisions: ReadonlyMap<string, number>): Promise<void> {
  const { columns, rows, few } = part
  if (rows.count === 0) return
  const write = revisions.size === 0 ? update : revise
  if (rows.count === few.length) return write(writer, part, inText(few, columns), revisions)
  const row = Object.entries(columns).map(([name, type]) => `${name} ${type}`)
  // One tuple, so that each row is looked up once.
  await withStaging(commands(writer), `key String, rollout_id String, row Tuple(${row.join(', ')})`, async (staging) => {
    await writer.insert(staging, 'key, rollout_id, row', written(rows), randomUUID())
    await write(writer, part, inTable(staging), revisions)
  })
}

/** Where an UPDATE finds what becomes of a transition. All in SQL. */
interface Source {
  readonly keys: string
  readonly rolloutIds: string
  value(name: string, key: string): string
}

const inTable = (staging: string): Source => ({
  keys: `(SELECT key FROM ${staging})`,
  rolloutIds: `(SELECT rollout_id FROM ${staging})`,
  value: (name, key) => `tupleElement(joinGet(${staging}, 'row', ${key}), '${name}')`,
})

/** Half the cost for a few. JSON, which holds numbers to their last bit. */
function inText(few: readonly Staged[], columns: Columns): Source {
  const rows = few.map(rowOf)
  const keys = few.map(({ key }) => literal(key)).join(',')
  return {
    keys: `(${keys})`,
    rolloutIds: textList(new Set(few.map(({ rollout_id }) => rollout_id))),
    value(name, key) {
      const values = rows.map((row) => JSON.stringify(row[name]))
      // A version is that of a whole group, and of one rollout nothing need be looked up.
      const alike = values.every((value) => value === values[0])
      const listed = literal(`[${(alike ? values.slice(0, 1) : values).join(',')}]`)
      return `JSONExtract(${listed}, 'Array(${columns[name]})')[${alike ? 1 : `indexOf([${keys}], ${key})`}]`
    },
  }
}

const KEY = `concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision), '\\0', toString(intDiv(step, ${STEPS})))`

/** What becomes of each column, in SQL. */
const changes = (columns: Columns, { value }: Source, key: string): [column: string, value: string][] =>
  Object.entries(columns).map(([column, type]) => {
    const own = value(column, key)
    return [column, type.startsWith('Array') ? `${own}[step % ${STEPS} + 1]` : own]
  })

/**
 * ClickHouse merges the patches that set the same columns. Those of a few set one more, which nobody ever changes, else each of them would be merged
 * with that of the last thousands again.
 */
const OF_A_FEW = 'parent_step = parent_step, '

/** What is read here is as it was written. */
const UNPATCHED = { apply_patch_parts: 0 } as const

async function update(writer: Writer, { columns, rows, few }: Part, source: Source): Promise<void> {
  const apart = rows.count === few.length ? OF_A_FEW : ''
  const set = changes(columns, source, KEY).map(([column, value]) => `${column} = ${value}`)
  await commands(writer, { ...UNPATCHED, ...(rows.count > MANY ? {} : SMALL_STATEMENT) }).command(`
    UPDATE transition_rows SET ${apart}${set.join(', ')}
    WHERE tenant = '' AND rollout_id IN ${source.rolloutIds} AND ${KEY} IN ${source.keys}`)
}

const commands = ({ client, run }: Writer, settings: ClickHouseSettings = SMALL_STATEMENT) => ({
  command: (query: string) => run(() => client.command({ query, clickhouse_settings: { ...LONG_STATEMENT, ...settings } })),
})

const REVISION_KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision))"

/** What belongs to a revision comes along. The last of it is the row of `rollouts`, which commits it. */
async function revise(writer: Writer, { columns, rollouts }: Part, source: Source, numbers: ReadonlyMap<string, number>): Promise<void> {
  const { command } = commands(writer)
  const set = changes(columns, source, 'step_key').map(([column, value]) => `${value} AS ${column}`)
  const rows = openRows()
  for (const { rollout_id, attempt_id, revision } of rollouts) {
    putString(rows, `${rollout_id}\0${attempt_id}\0${revision}`)
    putString(rows, rollout_id)
    putUInt32(rows, numbers.get(routeKey(rollout_id, attempt_id))!)
    rows.count++
  }
  await withStaging({ command }, 'key String, rollout_id String, next UInt32', async (next) => {
    await writer.insert(next, 'key, rollout_id, next', written(rows), randomUUID())
    const numbered = (stamp: string) => `joinGet(${next}, 'next', revision_key) AS revision, now64(3) AS ${stamp}`
    await command(`
      INSERT INTO transition_rows
      SELECT * EXCEPT (step_key, revision_key)
        REPLACE (${set.join(', ')}, ${numbered('inserted_at')})
      FROM (
        SELECT *, ${KEY} AS step_key, ${REVISION_KEY} AS revision_key FROM transition_rows
        WHERE tenant = '' AND rollout_id IN ${source.rolloutIds}
      )
      WHERE step_key IN ${source.keys}`)
    for (const [table, stamp] of [
      ['rejects', 'inserted_at'],
      ['outlines', 'inserted_at'],
      ['rollouts', 'committed_at'],
    ] as const) {
      await command(`
        INSERT INTO ${table} SELECT * EXCEPT (revision_key) REPLACE (${numbered(stamp)})
        FROM (
          SELECT *, ${REVISION_KEY} AS revision_key FROM ${table} WHERE tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${next})
        )
        WHERE revision_key IN (SELECT key FROM ${next})`)
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
