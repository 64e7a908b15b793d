// Where requests go while nobody can take them: to disk, which is where they are acknowledged then, and on, in order, once they can
// be taken. Nothing overtakes what waits.

import { detached, type SpanBatch } from '../../data/span_batch.ts'
import { Permanent, type Context } from '../component.ts'
import { messageOf } from '../retry.ts'
import type { DiskQueue } from './disk_queue.ts'
import { persistent } from './persistent.ts'

type Take = (batches: readonly SpanBatch[]) => Promise<void>

/** Requests handed on at once, as far as their size allows. */
const TOGETHER = 1_000

export interface Overflow {
  /** Resolves when the batches are taken, or on disk. Rejects with Permanent when they would never be taken. */
  consume: Take
  /** What is not taken stays on disk. */
  stop(): Promise<void>
}

/** Clients commonly wait for ten seconds. */
const PATIENCE_MS = 5_000

/**
 * `take` is handed what waits in lots, one after the other. When it takes longer than `patience`, its requests go to disk as well:
 * better twice than never.
 */
export function overflow(disk: DiskQueue, take: Take, context: Context, patience = PATIENCE_MS): Overflow {
  const stopping = new AbortController()
  const { put, stop } = persistent({ disk, deliver, lot: TOGETHER, lots: 1, context, stopping: stopping.signal })

  context.gauge('exporter_queue_size', () => disk.size.requests)
  context.gauge('leyden_queued_items', () => disk.size.items)

  async function consume(batches: readonly SpanBatch[]): Promise<void> {
    if (disk.size.requests > 0) return put(batches)
    try {
      // A copy, for whoever is not waited for goes on reading it.
      await inTime(take(batches.map(detached)))
    } catch (error) {
      if (error instanceof Permanent) throw error
      if (disk.size.requests === 0) context.log.warn('Requests go to disk until they can be taken', { error: messageOf(error) })
      await put(batches)
    }
  }

  async function inTime(taken: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`timed out after ${patience} ms`)), patience)
    })
    try {
      await Promise.race([taken, late])
    } finally {
      clearTimeout(timer)
    }
  }

  async function deliver(requests: readonly SpanBatch[]): Promise<boolean[]> {
    const done = await take(requests).then(
      () => true,
      (error: unknown) => error instanceof Permanent,
    )
    if (done && requests.length === disk.size.requests) context.log.info('All requests are taken that were kept on disk')
    return requests.map(() => done)
  }

  return {
    consume,
    async stop() {
      stopping.abort()
      await stop()
    },
  }
}
