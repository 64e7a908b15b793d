// Items that were stored as batches, as if they came in requests once more: what a receiver is told by them is then told by the same code, from
// their bytes.

import { requestOf } from './request.ts'
import { scan } from './scan.ts'
import { COLUMN, STRIDE, type Envelope, type RawItem, type SpanBatch } from './span_batch.ts'

/** Of each batch, and its items: far below what a request may hold. */
const MOST_BYTES = 1 << 20
const MOST_ITEMS = 4_096

/** In the same order; spans and log records apart. */
export function* batchesOf(items: readonly RawItem[]): Generator<SpanBatch> {
  for (let from = 0; from < items.length;) {
    const { signal } = items[from]!
    let to = from
    for (let bytes = 0; to < items.length && to - from < MOST_ITEMS && bytes < MOST_BYTES && items[to]!.signal === signal; to++) {
      bytes += items[to]!.payload.length
    }
    yield batchOf(signal, items.slice(from, to))
    from = to
  }
}

function batchOf(signal: SpanBatch['signal'], items: readonly RawItem[]): SpanBatch {
  const columns = new Int32Array(items.length * STRIDE)
  const resources = numbered()
  const scopes = numbered()
  let end = 0
  for (const [i, { payload, resource, scope }] of items.entries()) {
    columns[i * STRIDE + COLUMN.start] = end
    columns[i * STRIDE + COLUMN.end] = end += payload.length
    columns[i * STRIDE + COLUMN.resource] = resources.of(resource)
    columns[i * STRIDE + COLUMN.scope] = scopes.of(scope)
  }
  const body = Buffer.concat(
    items.map(({ payload }) => payload),
    end,
  )
  const places = { ...{ slots: new Int32Array(0), keys: [] }, resources: resources.all, scopes: scopes.all }
  return scan(signal, requestOf({ signal, body, count: items.length, columns, ...places })).batch
}

function numbered() {
  const all: Envelope[] = []
  const numbers = new Map<Envelope, number>()
  const of = (envelope: Envelope): number => {
    let number = numbers.get(envelope)
    if (number === undefined) numbers.set(envelope, (number = all.push(envelope) - 1))
    return number
  }
  return { all, of }
}
