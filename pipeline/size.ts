// How much a request is, for queues, batches and counters.

import { serialize } from 'node:v8'

import type { SpanBatch } from '../data/span_batch.ts'
import type { Item, Signal } from './component.ts'

/** What the items of a signal are called in the names of counters. */
export const UNIT: Readonly<Record<Signal, string>> = { traces: 'spans', logs: 'log_records', rollouts: 'rollouts' }

/** `items` are spans, log records or rollouts; each batch of spans came as a request. The bytes of a rollout are those of its copy in memory. */
export function sizeOf(items: readonly Item[], sizer: 'requests' | 'items' | 'bytes'): number {
  if (sizer === 'requests') return items.some(isBatch) ? items.length : 1
  const bytes = sizer === 'bytes'
  return items.reduce((sum, item) => {
    if (isBatch(item)) return sum + (bytes ? item.body.length : item.count)
    return sum + (bytes ? serialize(item).length : 1)
  }, 0)
}

const isBatch = (item: Item): item is SpanBatch => 'columns' in item
