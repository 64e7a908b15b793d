// Groups the spans of many requests into few inserts, since an insert costs ClickHouse 9 ms whatever
// its size. All requests of a flush are answered together, when it is stored.

import { randomUUID } from 'node:crypto'

import { steadyNow } from '../data/clock.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { hasRoom, rowSize, SEGMENT_BYTES, sizeSoFar, spanMemory, type Run, type Segment, type SpanMemory } from '../data/span_memory.ts'
import { spanStored } from './is_stored.ts'
import { type InsertRows, type Part, type Quarantine } from './quarantine.ts'
import { spanBlock, type SpanBlock } from './span_block.ts'
import type { Place, Stored } from './storage.ts'

/**
 * A flush is sent when its segment is full (at 8 MiB or 10,000 rows), or when it has waited as long as an insert takes nowadays, or when the one
 * before it was sent that long ago and nothing more has come for LULL_MS: clients that were answered together send together what comes next.
 */
const LULL_MS = 3
const SHORTEST_WAIT_MS = 20
const LONGEST_WAIT_MS = 100
/** Inserts that the time of one is an average of, roughly. */
const LATELY = 8
/** Flushes on their way at once. Past that, requests wait. */
const OUTSTANDING = 3

export interface SpanInserter {
  /** Resolves when the rows of all these items are stored, or put aside as refused. The batches are not read once it has settled. */
  insert(batches: readonly SpanBatch[], hints: readonly (readonly string[])[]): Promise<Stored>
  /** Where the rows are. So many bytes more of the latest stay there when they are stored. */
  hold(bytes: number): SpanMemory
  /** Sends what waits, and resolves when nothing is on its way. */
  close(): Promise<void>
}

const NONE: readonly Place[] = []

interface Flush {
  readonly block: SpanBlock
  readonly segment: Segment
  /** What was in its segment before. */
  readonly start: number
  /** What the rows were made of. */
  readonly sources: Part[]
  readonly received_at: number
  /** performance.now() when it has waited long enough. */
  readonly due: number
  timer: NodeJS.Timeout
  readonly stored: Promise<readonly Place[]>
  readonly settle: (result: Promise<readonly Place[]>) => void
}

export function spanInserter(insertRows: InsertRows, { sort }: Quarantine): SpanInserter {
  const waiting: (() => void)[] = []
  const outstanding = new Set<Promise<readonly Place[]>>()
  const memory = spanMemory()
  let filling: Flush | null = null
  let lastReceived = 0
  let insertMs = LONGEST_WAIT_MS
  let lastSent = -LONGEST_WAIT_MS
  /** Bytes of the last flush: the next is likely to be as large. */
  let lastSize = 0

  async function insert(batches: readonly SpanBatch[], hints: readonly (readonly string[])[]): Promise<Stored> {
    const flushes: Flush[] = []
    const rows: Run[][] = []
    for (let b = 0; b < batches.length; b++) {
      const batch = batches[b]!
      const runs: Run[] = []
      for (let i = 0; i < batch.count;) {
        while (!filling && outstanding.size >= OUTSTANDING) await new Promise<void>((resolve) => waiting.push(resolve))
        const flush = (filling ??= begin(rowSize(batch, i)))
        if (flushes.at(-1) !== flush) flushes.push(flush)
        const run = fill(flush, batch, hints[b], i)
        runs.push(run)
        i = run.to
        if (i < batch.count) send(flush)
      }
      rows.push(runs)
    }
    // One that fails does not end it: what the others are made of may be read again as long as they are under way.
    let failure: { readonly reason: unknown } | undefined
    let refused: readonly Place[] = NONE
    for (const { stored } of flushes) {
      try {
        const places = await stored
        if (places.length > 0) refused = [...refused, ...places.filter(({ batch }) => batches.includes(batch))]
      } catch (reason) {
        failure ??= { reason }
      }
    }
    if (failure) throw failure.reason
    return { refused, rows }
  }

  /** Appends the items from `from` on, as many as there is room for. */
  function fill({ segment, block, sources }: Flush, batch: SpanBatch, hints: readonly string[] | undefined, from: number): Run {
    const row = segment.count
    let to = from
    for (; to < batch.count && hasRoom(segment, rowSize(batch, to)); to++) block.put(batch, to, hints?.[to] ?? '')
    sources.push({ batch, hints, from, to })
    return { segment, row, from, to }
  }

  /** Its segment has room for a row of so many bytes, and for what is likely to follow: a flush that its segment's end cuts off is one insert more. */
  function begin(size: number): Flush {
    const segment = memory.take(Math.max(size, Math.min(lastSize, SEGMENT_BYTES)))
    let settle!: Flush['settle']
    const stored = new Promise<readonly Place[]>((resolve) => (settle = resolve))
    stored.catch(() => {})
    // One arrival per flush, and each its own: a rollout that covers one arrival covers it whole.
    const received_at = (lastReceived = Math.max(steadyNow(), lastReceived + 1))
    const wait = Math.min(Math.max(insertMs, SHORTEST_WAIT_MS), LONGEST_WAIT_MS)
    const now = performance.now()
    const timer = setTimeout(() => sendInLull(flush, 1), Math.max(LULL_MS, lastSent + wait - now))
    const block = spanBlock(segment, received_at)
    const flush: Flush = { block, segment, start: sizeSoFar(segment), sources: [], received_at, stored, settle, due: now + wait, timer }
    return flush
  }

  /** Sends it, unless it is more than these parts by now, and may wait. */
  function sendInLull(flush: Flush, parts: number): void {
    const left = flush.due - performance.now()
    const { length } = flush.sources
    if (length === parts || left < LULL_MS) send(flush)
    else flush.timer = setTimeout(() => sendInLull(flush, length), LULL_MS)
  }

  /** One is filled only while another insert may begin, so it can always be sent. */
  function send(flush: Flush): void {
    clearTimeout(flush.timer)
    filling = null
    const { segment } = flush
    lastSize = sizeSoFar(segment) - flush.start
    const began = (lastSent = performance.now())
    // The block is as good as its stamp of arrival: should its insert be tried again, then under the same name.
    const isStored = spanStored(firstOf(flush), flush.received_at)
    const sent = insertRows(flush.block.parts(), randomUUID(), isStored)
      .then(() => NONE)
      .catch((error: unknown) => sort(flush.sources, flush.received_at, error))
      .finally(() => {
        insertMs += (performance.now() - began - insertMs) / LATELY
        outstanding.delete(sent)
        flush.block.release()
        memory.letGo(segment)
        for (const next of waiting.splice(0)) next()
      })
    outstanding.add(sent)
    flush.settle(sent)
  }

  async function close(): Promise<void> {
    if (filling) send(filling)
    await Promise.allSettled(outstanding)
  }

  function hold(bytes: number): SpanMemory {
    memory.hold(bytes)
    return memory
  }

  return { insert, hold, close }
}

function firstOf({ sources }: Flush) {
  const [{ batch, from: i, hints }] = sources as [Part]
  return { batch, i, hint: hints?.[i] ?? '' }
}
