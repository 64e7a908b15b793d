// Groups the spans of many requests into few inserts, since an insert costs ClickHouse 9 ms whatever
// its size. All requests of a flush are answered together, when it is stored.

import { randomUUID } from 'node:crypto'

import { steadyNow } from '../data/clock.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { type InsertRows, type Part, type Quarantine } from './quarantine.ts'
import { openRows, written, type Rows } from './row_binary.ts'
import { spanRows, type SpanRows } from './span_rows.ts'
import type { Place } from './storage.ts'

/** A flush is sent at 4 MB, 10,000 rows, or when it has waited as long as an insert takes nowadays: whichever is first. */
const FLUSH_BYTES = 4_000_000
const FLUSH_ROWS = 10_000
const SHORTEST_WAIT_MS = 20
const LONGEST_WAIT_MS = 100
/** Inserts that the time of one is an average of, roughly. */
const LATELY = 8
/** Flushes on their way at once. Past that, requests wait. */
const OUTSTANDING = 3
/** Room for one more row, so that a buffer seldom grows. One that grew far is not kept. */
const BUFFER_BYTES = FLUSH_BYTES + 1_000_000
const KEEP_BYTES = 2 * BUFFER_BYTES

export interface SpanInserter {
  /** Resolves when the rows of all these items are stored, or put aside as refused, with those. The batches are not read once it has settled. */
  insert(batches: readonly SpanBatch[], hints: readonly (readonly string[])[]): Promise<readonly Place[]>
  /** Sends what waits, and resolves when nothing is on its way. */
  close(): Promise<void>
}

interface Flush extends SpanRows {
  readonly rows: Rows
  /** What the rows were made of. */
  readonly parts: Part[]
  readonly received_at: number
  readonly timer: NodeJS.Timeout
  readonly stored: Promise<readonly Place[]>
  readonly settle: (result: Promise<readonly Place[]>) => void
}

export function spanInserter(insertRows: InsertRows, { sort }: Quarantine): SpanInserter {
  const buffers: Rows[] = []
  const waiting: (() => void)[] = []
  const outstanding = new Set<Promise<readonly Place[]>>()
  let filling: Flush | null = null
  let lastReceived = 0
  let insertMs = LONGEST_WAIT_MS

  async function insert(batches: readonly SpanBatch[], hints: readonly (readonly string[])[]): Promise<readonly Place[]> {
    const flushes = new Set<Flush>()
    for (const [b, batch] of batches.entries()) {
      for (let i = 0; i < batch.count;) {
        while (!filling && outstanding.size >= OUTSTANDING) await new Promise<void>((resolve) => waiting.push(resolve))
        const flush = (filling ??= begin())
        flushes.add(flush)
        i = fill(flush, batch, hints[b], i)
        if (isFull(flush)) send(flush)
      }
    }
    const refused: Place[] = []
    // One that fails does not end it: what the others are made of may be read again as long as they are under way.
    for (const result of await Promise.allSettled([...flushes].map(({ stored }) => stored))) {
      if (result.status === 'rejected') throw result.reason
      for (const place of result.value) if (batches.includes(place.batch)) refused.push(place)
    }
    return refused
  }

  /** Appends the items from `from` on, as many as there is room for. Returns the first that is left. */
  function fill(flush: Flush, batch: SpanBatch, hints: readonly string[] | undefined, from: number): number {
    let to = from
    for (; to < batch.count && !isFull(flush); to++) flush.put(batch, to, hints?.[to] ?? '')
    flush.parts.push({ batch, hints, from, to })
    return to
  }

  const isFull = ({ rows }: Flush): boolean => rows.length >= FLUSH_BYTES || rows.count >= FLUSH_ROWS

  function begin(): Flush {
    const rows = buffers.pop() ?? openRows(BUFFER_BYTES)
    let settle!: Flush['settle']
    const stored = new Promise<readonly Place[]>((resolve) => (settle = resolve))
    stored.catch(() => {})
    // One arrival per flush, and each its own: a rollout that covers one arrival covers it whole.
    const received_at = (lastReceived = Math.max(steadyNow(), lastReceived + 1))
    const { put } = spanRows(rows, received_at)
    const wait = Math.min(Math.max(insertMs, SHORTEST_WAIT_MS), LONGEST_WAIT_MS)
    const flush: Flush = { rows, put, parts: [], received_at, stored, settle, timer: setTimeout(() => send(flush), wait) }
    return flush
  }

  /** One is filled only while another insert may begin, so it can always be sent. */
  function send(flush: Flush): void {
    clearTimeout(flush.timer)
    filling = null
    const bytes = written(flush.rows)
    const began = performance.now()
    // The block is as good as its stamp of arrival: should its insert be tried again, then under the same name.
    const sent = insertRows(bytes, randomUUID())
      .then((): readonly Place[] => [])
      .catch((error: unknown) => sort(flush.parts, flush.received_at, error))
      .finally(() => {
        insertMs += (performance.now() - began - insertMs) / LATELY
        outstanding.delete(sent)
        recycle(flush.rows)
        for (const next of waiting.splice(0)) next()
      })
    outstanding.add(sent)
    flush.settle(sent)
  }

  function recycle(rows: Rows): void {
    if (rows.bytes.length > KEEP_BYTES) return
    rows.length = rows.count = 0
    buffers.push(rows)
  }

  async function close(): Promise<void> {
    if (filling) send(filling)
    await Promise.allSettled(outstanding)
  }

  return { insert, close }
}
