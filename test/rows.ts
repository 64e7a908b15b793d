// Rows of batches in memory, as an insert leaves them there.

import type { SpanBatch } from '../data/span_batch.ts'
import { hasRoom, rowSize, type Items, type Run, type SpanMemory } from '../data/span_memory.ts'
import { spanBlock } from '../storage/span_block.ts'

/** Writes all items of a batch, and lets go of the memory. */
export function rowsIn(memory: SpanMemory, batch: SpanBatch): Run[] {
  const runs: Run[] = []
  for (let from = 0; from < batch.count;) {
    const segment = memory.take(rowSize(batch, from))
    const { put, release } = spanBlock(segment, 0)
    const row = segment.count
    let to = from
    for (; to < batch.count && hasRoom(segment, rowSize(batch, to)); to++) put(batch, to, '')
    release()
    runs.push({ segment, row, from, to })
    memory.letGo(segment)
    from = to
  }
  return runs
}

export const itemsOf = (indices: readonly number[]): Items => ({ order: Int32Array.from(indices), from: 0, to: indices.length })
