// Items that were stored as batches, as if they came in requests once more: what a receiver is told by them is then told by the same code, from
// their bytes.

import { requestOfStored } from './request.ts'
import { scan } from './scan.ts'
import type { RawItem, SpanBatch } from './span_batch.ts'

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
    yield scan(signal, requestOfStored(items.slice(from, to))).batch
    from = to
  }
}
