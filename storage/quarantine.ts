// Spans and log records that ClickHouse refuses for good stand in `rejects` with the server's reason; the rest of their insert is stored.

import { createHash } from 'node:crypto'

import { placeOf, splitKey } from '../data/routing.ts'
import { spanId, traceId, type SpanBatch } from '../data/span_batch.ts'
import { reasonOf, REFUSED, storeApart, type Refused } from './refused.ts'
import { putReject } from './rollout_rows.ts'
import { openRows, written, type Rows } from './row_binary.ts'
import { spanRows } from './span_rows.ts'
import type { Place } from './storage.ts'

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

export const tokenOf = (bytes: Buffer): string => createHash('sha1').update(bytes).digest('hex')

export function quarantine(insertSpans: InsertRows, insertRejects: InsertRows, count: (name: string, n: number) => void): Quarantine {
  async function sort(parts: readonly Part[], receivedAt: number, error: unknown): Promise<readonly Place[]> {
    const refused = await storeApart(rowsOf(parts), error, (rows) => store(rows, receivedAt))
    const rejects = openRows()
    for (const one of refused) putRefused(rejects, one, receivedAt)
    const bytes = written(rejects)
    await insertRejects(bytes, tokenOf(bytes))
    count('leyden_quarantined_items', refused.length)
    return refused.map(({ row }) => row)
  }

  function store(rows: readonly Row[], receivedAt: number): Promise<void> {
    const block = openRows()
    const { put } = spanRows(block, receivedAt)
    for (const { batch, i, hint } of rows) put(batch, i, hint)
    const bytes = written(block)
    return insertSpans(bytes, tokenOf(bytes))
  }

  return { sort }
}

const rowsOf = (parts: readonly Part[]): Row[] =>
  parts.flatMap(({ batch, hints, from, to }) =>
    Array.from({ length: to - from }, (_, n) => ({ batch, i: from + n, hint: hints?.[from + n] ?? '' })),
  )

function putRefused(rows: Rows, refused: Refused<Row>, at: number): void {
  const { batch, i, hint } = refused.row
  const { rollout_id, attempt_id } = hint ? splitKey(hint) : { rollout_id: placeOf(traceId(batch, i), hint), attempt_id: '' }
  const reject = { span_id: spanId(batch, i), policy: '', reason: REFUSED, detail: reasonOf(refused) }
  putReject(rows, { tenant: '', rollout_id, attempt_id, revision: 0 }, reject, at)
}
