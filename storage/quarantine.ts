// What to do when ClickHouse takes in everything but some rows: the rows at fault are found by halving, and stand in `rejects`
// with the server's reason. The rest is stored as if nothing had happened.

import { createHash } from 'node:crypto'

import { ClickHouseError } from '@clickhouse/client'

import { placeOf, splitKey } from '../data/routing.ts'
import { spanId, traceId, type SpanBatch } from '../data/span_batch.ts'
import { passes } from './availability.ts'
import { putRejects } from './rollout_rows.ts'
import { openRows, written } from './row_binary.ts'
import { spanRows } from './span_rows.ts'
import { Unavailable, type Place } from './storage.ts'

/** Stores RowBinary rows. Rows that come again with the same token are stored once. */
export type InsertRows = (rows: Buffer, token: string) => Promise<void>

/** Items `from` up to `to` of a batch, as they stand in one insert. */
export interface Part {
  readonly batch: SpanBatch
  readonly hints: readonly string[] | undefined
  readonly from: number
  readonly to: number
}

export interface Quarantine {
  /** Stores what can be stored of an insert that was refused with this error; the rest is returned. Rejects when that is no matter of its rows. */
  sort(parts: readonly Part[], receivedAt: number, error: unknown): Promise<readonly Place[]>
}

interface Row extends Place {
  readonly hint: string
}

/** More rows of one insert are not put aside: then it is the server that needs mending, and clients keep what they have. */
const MAX_REFUSED = 32

export const tokenOf = (bytes: Buffer): string => createHash('sha1').update(bytes).digest('hex')

export function quarantine(insertSpans: InsertRows, insertRejects: InsertRows, count: (name: string, n: number) => void): Quarantine {
  async function sort(parts: readonly Part[], receivedAt: number, error: unknown): Promise<readonly Place[]> {
    if (!isRefusal(error)) throw error
    // A table that is missing or a user without rights refuses an insert of nothing as well.
    await insertSpans(Buffer.alloc(0), '')
    const rows = parts.flatMap(({ batch, hints, from, to }) =>
      Array.from({ length: to - from }, (_, n) => ({ batch, i: from + n, hint: hints?.[from + n] ?? '' })),
    )
    const refused = await storeHalves(rows, receivedAt, error, MAX_REFUSED)
    const rejects = openRows()
    for (const [row, reason] of refused) putReject(rejects, row, reason, receivedAt)
    const bytes = written(rejects)
    await insertRejects(bytes, tokenOf(bytes))
    count('leyden_quarantined_items', refused.length)
    return refused.map(([row]) => row)
  }

  /** `rows` were refused together. Returns those that are refused alone. */
  async function storeHalves(rows: readonly Row[], receivedAt: number, error: unknown, most: number): Promise<[Row, string][]> {
    if (rows.length === 1) return [[rows[0]!, reasonOf(error)]]
    const middle = rows.length >> 1
    const refused: [Row, string][] = []
    for (const half of [rows.slice(0, middle), rows.slice(middle)]) {
      refused.push(...(await store(half, receivedAt, most - refused.length)))
      if (refused.length > most) throw error
    }
    return refused
  }

  async function store(rows: readonly Row[], receivedAt: number, most: number): Promise<[Row, string][]> {
    const block = openRows()
    const { put } = spanRows(block, receivedAt)
    for (const { batch, i, hint } of rows) put(batch, i, hint)
    const bytes = written(block)
    try {
      await insertSpans(bytes, tokenOf(bytes))
      return []
    } catch (error) {
      if (!isRefusal(error)) throw error
      return storeHalves(rows, receivedAt, error, most)
    }
  }

  return { sort }
}

function putReject(rows: Parameters<typeof putRejects>[0], { batch, i, hint }: Row, detail: string, at: number): void {
  const { rollout_id, attempt_id } = hint ? splitKey(hint) : { rollout_id: placeOf(traceId(batch, i), hint), attempt_id: '' }
  const reject = { span_id: spanId(batch, i), policy: '', reason: 'refused_by_clickhouse', detail }
  putRejects(rows, { tenant: '', rollout_id, attempt_id, revision: 0, rejects: [reject] }, at)
}

/** ClickHouse has answered, and would answer the same again. */
function isRefusal(error: unknown): boolean {
  return error instanceof Unavailable && error.cause instanceof ClickHouseError && !passes(error.cause)
}

const reasonOf = (error: unknown): string => ((error as Unavailable).cause as ClickHouseError).message
