// Items as a request of their own: what is forwarded holds nothing that was rejected.

import { payload, resource, scope, type Envelope, type RawItem, type SpanBatch } from './span_batch.ts'
import { prependBytes, prependText, prependVarint, size, writer, written, type Writer } from './wire.ts'

/** Field tags: the same numbers in ExportTraceServiceRequest and ExportLogsServiceRequest and below them. */
const RESOURCE_ITEMS = 10
const ENVELOPE = 10
const INNER = 18
const SCHEMA_URL = 26

/** The items of a request, in their order, and what they stand below. */
interface Items {
  readonly count: number
  payload(i: number): Buffer
  resource(i: number): Envelope
  scope(i: number): Envelope
}

/** The request that holds exactly the batch's items, grouped as they came. */
export const requestOf = (batch: SpanBatch): Buffer =>
  joined({ count: batch.count, payload: (i) => payload(batch, i), resource: (i) => resource(batch, i), scope: (i) => scope(batch, i) })

/** The same of items that were stored, all of one signal. */
export const requestOfStored = (items: readonly RawItem[]): Buffer =>
  joined({ count: items.length, payload: (i) => items[i]!.payload, resource: (i) => items[i]!.resource, scope: (i) => items[i]!.scope })

/** Written from its end, as lengths come first. */
function joined(items: Items): Buffer {
  const w = writer()
  for (let last = items.count - 1; last >= 0;) {
    const own = items.resource(last)
    const end = size(w)
    last = prependScopes(w, items, last, own)
    prependEnvelope(w, own)
    prependMessage(w, end, RESOURCE_ITEMS)
  }
  return written(w)
}

/** Every scope of a resource, from item `last` down. Returns the item before them. */
function prependScopes(w: Writer, items: Items, last: number, of: Envelope): number {
  let i = last
  while (i >= 0 && items.resource(i) === of) {
    const own = items.scope(i)
    const end = size(w)
    for (; i >= 0 && items.scope(i) === own && items.resource(i) === of; i--) {
      prependBytes(w, items.payload(i))
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
