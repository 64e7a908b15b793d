// Traces that a span links to, found without decoding it: runtimes that pass messages begin a trace with each, linked to the one before.

import { COLUMN, STRIDE, type SpanBatch } from './span_batch.ts'
import { open, skip, tag, type Cursor } from './wire.ts'

const LINKS = (13 << 3) | 2
const TRACE_ID = (1 << 3) | 2
const NONE: readonly string[] = []

export const hasLinks = ({ columns }: SpanBatch, i: number): boolean => columns[i * STRIDE + COLUMN.link] !== 0

/** As 32 hex digits. The batch was checked whole: reading it cannot fail. */
export function linkedTraces(batch: SpanBatch, i: number): readonly string[] {
  const { body, columns } = batch
  const first = columns[i * STRIDE + COLUMN.link]!
  if (first === 0) return NONE
  const c: Cursor = { bytes: body, pos: first }
  const end = columns[i * STRIDE + COLUMN.end]!
  const traces: string[] = []
  linkedTrace(c, open(c, end), traces)
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === LINKS) linkedTrace(c, open(c, end), traces)
    else skip(c, field, end)
  }
  return traces
}

function linkedTrace(c: Cursor, end: number, traces: string[]): void {
  while (c.pos < end) {
    const field = tag(c, end)
    const start = c.pos
    skip(c, field, end)
    if (field === TRACE_ID && c.pos - start === 17) traces.push(c.bytes.toString('hex', start + 1, c.pos))
  }
}
