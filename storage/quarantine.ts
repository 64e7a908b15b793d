// Spans and log records that ClickHouse refuses for good stand in `rejects` with the server's reason; the rest of their insert is stored.

import { createHash } from 'node:crypto'

import type { Reject } from '../data/rollout.ts'
import { placeOf, splitKey } from '../data/routing.ts'
import { spanId, traceId, type SpanBatch } from '../data/span_batch.ts'
import { loneSegment, rowSize } from '../data/span_memory.ts'
import { revisionStored, spanStored, type IsStored } from './is_stored.ts'
import { reasonOf, REFUSED, storeApart, type Refused } from './refused.ts'
import { putReject } from './rollout_rows.ts'
import { openRows, written } from './row_binary.ts'
import { spanBlock } from './span_block.ts'
import type { Place } from './storage.ts'

/** Stores rows, whose bytes are these pieces. Rows that come again with the same token are stored once. */
export type InsertRows = (rows: readonly Buffer[], token: string, isStored: IsStored) => Promise<void>

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

function tokenOf(pieces: readonly Buffer[]): string {
  const hash = createHash('sha1')
  for (const bytes of pieces) hash.update(bytes)
  return hash.digest('hex')
}

export function quarantine(insertSpans: InsertRows, insertRejects: InsertRows, count: (name: string, n: number) => void): Quarantine {
  async function sort(parts: readonly Part[], receivedAt: number, error: unknown): Promise<readonly Place[]> {
    const refused = await storeApart(rowsOf(parts), error, (rows) => store(rows, receivedAt))
    const rejects = openRows()
    for (const one of refused) putReject(rejects, rolloutOf(one.row), rejectOf(one), receivedAt)
    const pieces = [written(rejects)]
    const first = refused[0]
    const isStored = first && revisionStored('rejects', rolloutOf(first.row), rejectOf(first), receivedAt)
    await insertRejects(pieces, tokenOf(pieces), isStored)
    count('leyden_quarantined_items', refused.length)
    return refused.map(({ row }) => row)
  }

  function store(rows: readonly Row[], receivedAt: number): Promise<void> {
    const size = rows.reduce((sum, { batch, i }) => sum + rowSize(batch, i), 0)
    const { put, parts } = spanBlock(loneSegment(size), receivedAt)
    for (const { batch, i, hint } of rows) put(batch, i, hint)
    const pieces = parts()
    return insertSpans(pieces, tokenOf(pieces), spanStored(rows[0], receivedAt))
  }

  return { sort }
}

const rowsOf = (parts: readonly Part[]): Row[] =>
  parts.flatMap(({ batch, hints, from, to }) =>
    Array.from({ length: to - from }, (_, n) => ({ batch, i: from + n, hint: hints?.[from + n] ?? '' })),
  )

function rolloutOf({ batch, i, hint }: Row) {
  const { rollout_id, attempt_id } = hint ? splitKey(hint) : { rollout_id: placeOf(traceId(batch, i), hint), attempt_id: '' }
  return { tenant: '', rollout_id, attempt_id, revision: 0 }
}

const rejectOf = (refused: Refused<Row>): Reject => ({
  ...{ span_id: spanId(refused.row.batch, refused.row.i), policy: '', reason: REFUSED, detail: reasonOf(refused) },
})
