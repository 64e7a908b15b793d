// Traces that a span links to, found without decoding it: runtimes that pass messages begin a trace with each, linked to the one before.

import { payload, type SpanBatch } from './span_batch.ts'
import { open, skip, tag, type Cursor } from './wire.ts'

const LINKS = (13 << 3) | 2
const TRACE_ID = (1 << 3) | 2

/** As 32 hex digits. The batch was checked whole: reading it cannot fail. */
export function linkedTraces(batch: SpanBatch, i: number): string[] {
  const c: Cursor = { bytes: payload(batch, i), pos: 0 }
  const end = c.bytes.length
  const traces: string[] = []
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
