// A batch with other content: what a function makes of its items, in their OTLP/JSON form. Only what changes is written anew.

import { decode, encode } from './otlp_json.ts'
import { InstrumentationScope, LogRecord, Resource, Span, type Message } from './otlp_messages.ts'
import { requestOf } from './request.ts'
import { scan } from './scan.ts'
import { COLUMN, payload, STRIDE, type Envelope, type SpanBatch } from './span_batch.ts'

/** A Span, LogRecord, Resource or InstrumentationScope in. The same object out means that nothing changes. */
export type Change = (message: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>>

export function rewrite(batch: SpanBatch, change: Change): SpanBatch {
  const envelopes = (kind: Message, all: readonly Envelope[]) =>
    all.map((envelope) => {
      const bytes = changed(kind, envelope.bytes, change)
      return bytes ? { ...envelope, bytes } : envelope
    })
  const resources = envelopes(Resource, batch.resources)
  const scopes = envelopes(InstrumentationScope, batch.scopes)
  const { body, columns } = withPayloads(batch, change)
  const untouched =
    body === batch.body && resources.every((r, i) => r === batch.resources[i]) && scopes.every((s, i) => s === batch.scopes[i])
  if (untouched) return batch
  return scan(batch.signal, requestOf({ ...batch, body, columns, resources, scopes }), batch.keys).batch
}

/** The items that change, appended to the body; the columns say where they now are. */
function withPayloads(batch: SpanBatch, change: Change): Pick<SpanBatch, 'body' | 'columns'> {
  const kind = batch.signal === 'traces' ? Span : LogRecord
  const parts = [batch.body]
  const columns = batch.columns.slice()
  let end = batch.body.length
  for (let i = 0; i < batch.count; i++) {
    const bytes = changed(kind, payload(batch, i), change)
    if (!bytes) continue
    parts.push(bytes)
    columns[i * STRIDE + COLUMN.start] = end
    columns[i * STRIDE + COLUMN.end] = end += bytes.length
  }
  return parts.length === 1 ? batch : { body: Buffer.concat(parts, end), columns }
}

function changed(kind: Message, bytes: Buffer, change: Change): Buffer | undefined {
  const before = decode(kind, bytes)
  const after = change(before)
  return after === before ? undefined : encode(kind, after)
}
