// The items of a batch as a request of their own: what is forwarded holds nothing that was rejected.

import { payload, resource, scope, type Envelope, type SpanBatch } from './span_batch.ts'
import { prependBytes, prependText, prependVarint, size, writer, written, type Writer } from './wire.ts'

/** Field tags: the same numbers in ExportTraceServiceRequest and ExportLogsServiceRequest and below them. */
const RESOURCE_ITEMS = 10
const ENVELOPE = 10
const INNER = 18
const SCHEMA_URL = 26

/** The request that holds exactly the batch's items, grouped as they came. Written from its end, as lengths come first. */
export function requestOf(batch: SpanBatch): Buffer {
  const w = writer()
  for (let last = batch.count - 1; last >= 0;) {
    const own = resource(batch, last)
    const end = size(w)
    last = prependScopes(w, batch, last, own)
    prependEnvelope(w, own)
    prependMessage(w, end, RESOURCE_ITEMS)
  }
  return written(w)
}

/** Every scope of a resource, from item `last` down. Returns the item before them. */
function prependScopes(w: Writer, batch: SpanBatch, last: number, of: Envelope): number {
  let i = last
  while (i >= 0 && resource(batch, i) === of) {
    const own = scope(batch, i)
    const end = size(w)
    for (; i >= 0 && scope(batch, i) === own && resource(batch, i) === of; i--) {
      prependBytes(w, payload(batch, i))
      prependVarint(w, INNER)
    }
    prependEnvelope(w, own)
    prependMessage(w, end, INNER)
  }
  return i
}

function prependEnvelope(w: Writer, { bytes, schema_url }: Envelope): void {
  if (schema_url) {
    prependText(w, schema_url)
    prependVarint(w, SCHEMA_URL)
  }
  prependBytes(w, bytes)
  prependVarint(w, ENVELOPE)
}

/** Makes a message of what was written since the writer held `before` bytes. */
function prependMessage(w: Writer, before: number, tag: number): void {
  prependVarint(w, size(w) - before)
  prependVarint(w, tag)
}
