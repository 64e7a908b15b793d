// Credit on its way into `transition_rows`: what was assigned anew, and what is only compared with something else, each in one
// lightweight UPDATE however many groups are concerned. Every row carries the version of its group's credit, so that as long as
// an UPDATE is under way, or `credits` does not name that version yet, readers of whole groups leave the group alone.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

import type { Rollout, Transition } from '../data/rollout.ts'
import { openRows, putFloat64, putMap, putNullable, putString, putUInt32, written, type Rows } from './row_binary.ts'
import { withStaging } from './staging.ts'

export interface CreditRows {
  /** Rows with returns of their own. */
  readonly assigned: Rows
  /** Rows whose advantage alone is new. */
  readonly compared: Rows
}

export const openCreditRows = (): CreditRows => ({ assigned: openRows(), compared: openRows() })

type RevisionKey = Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision'>

export function putCompared({ compared }: CreditRows, rollout: RevisionKey, step: number, advantage: number | null, version: number): void {
  putKey(compared, rollout, step)
  putNullable(compared, advantage, putFloat64)
  putNullable(compared, version, putUInt32)
  compared.count++
}

/** @param version null where the rollout has no group, or one that is not credited yet */
export function putAssigned(
  { assigned }: CreditRows,
  rollout: RevisionKey,
  t: Transition,
  advantage: number | null,
  version: number | null,
): void {
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
}

export async function updateCredit(writer: Writer, { assigned, compared }: CreditRows): Promise<void> {
  await update(writer, assigned, ASSIGNED)
  await update(writer, compared, COMPARED)
}

async function update({ client, run, insert }: Writer, rows: Rows, columns: Readonly<Record<string, string>>): Promise<void> {
  if (rows.count === 0) return
  const command = (query: string) => run(() => client.command({ query }))
  const names = Object.keys(columns)
  const types = names.map((name) => `${name} ${columns[name]}`)
  await withStaging({ command }, `key String, rollout_id String, ${types.join(', ')}`, async (staging) => {
    await insert(staging, `key, rollout_id, ${names.join(', ')}`, written(rows), randomUUID())
    const set = names.map((name) => `${name} = joinGet(${staging}, '${name}', ${KEY})`)
    await command(
      `UPDATE transition_rows SET ${set.join(', ')}
       WHERE tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${staging}) AND ${KEY} IN (SELECT key FROM ${staging})`,
    )
  })
}
