// Requests that wait on disk: written before they are acknowledged, and handed on until somebody has taken them.

import { setTimeout as sleep } from 'node:timers/promises'

import { Malformed, scan } from '../../data/scan.ts'
import type { SpanBatch } from '../../data/span_batch.ts'
import type { Context } from '../component.ts'
import type { DiskQueue } from './disk_queue.ts'
import type { StoredRecord } from './records.ts'

/** What file_storage gives to those who name it: a queue of their own in its folder, as it was left. */
export interface QueueFolder {
  open(name: string, context: Context): Promise<DiskQueue>
}

export interface Persistent {
  /** Resolves when the requests are on disk. */
  put(batches: readonly SpanBatch[]): Promise<void>
  /** Lets what is being handed on come to its end; what was not taken stays on disk. `stopping` must have fired. */
  stop(): Promise<void>
}

/** Hands a lot of requests on. Says for each whether it is done with: taken, or refused for good. The others come again. */
export type Deliver = (lot: readonly SpanBatch[]) => Promise<readonly boolean[]>

export interface PersistentOptions {
  readonly disk: DiskQueue
  readonly deliver: Deliver
  /** How many requests are a lot, and how many lots may be under way. One lot at a time keeps the order. */
  readonly lot: number
  readonly lots: number
  readonly context: Pick<Context, 'log' | 'count'>
  readonly stopping: AbortSignal
}

/** So much is read ahead of what is done with. */
const UNDER_WAY_BYTES = 16_000_000
/** Pause before what was not taken is handed on again. */
const AGAIN_MS = 1_000

const KIND = { traces: 0, logs: 1 } as const

export function persistent({ disk, deliver, lot, lots, context, stopping }: PersistentOptions): Persistent {
  const underWay = new Set<Promise<void>>()
  let bytesUnderWay = 0
  let wake = () => {}
  const running = run()
  stopping.addEventListener('abort', () => wake())

  async function put(batches: readonly SpanBatch[]): Promise<void> {
    await disk.append(batches.map(({ signal, count, body }) => ({ kind: KIND[signal], items: count, payload: body })))
    wake()
  }

  async function run(): Promise<void> {
    while (!stopping.aborted) {
      const woken = new Promise<void>((resolve) => (wake = resolve))
      const requests = underWay.size < lots ? await readLot() : []
      if (requests.length === 0) {
        await woken
        continue
      }
      const handed = handOn(requests).finally(() => {
        underWay.delete(handed)
        for (const { batch } of requests) bytesUnderWay -= batch.body.length
        wake()
      })
      underWay.add(handed)
    }
    await Promise.all(underWay)
  }

  async function readLot(): Promise<Request[]> {
    const requests: Request[] = []
    while (requests.length < lot && bytesUnderWay < UNDER_WAY_BYTES) {
      const record = await disk.next()
      if (!record) break
      const batch = batchOf(record)
      if (!batch) continue
      requests.push({ sequence: record.sequence, batch })
      bytesUnderWay += batch.body.length
    }
    return requests
  }

  /** It was a good request when it was written, so only another version's idea of good can be in the way. */
  function batchOf({ kind, payload, sequence, items }: StoredRecord): SpanBatch | undefined {
    try {
      return scan(kind === KIND.logs ? 'logs' : 'traces', payload).batch
    } catch (error) {
      if (!(error instanceof Malformed)) throw error
      context.log.error('A request in the queue on disk is no OTLP request; it is dropped', { error: error.message, items })
      context.count('leyden_queue_malformed_items', items)
      disk.delivered(sequence)
      return undefined
    }
  }

  async function handOn(requests: readonly Request[]): Promise<void> {
    let left = requests
    for (;;) {
      const done = await deliver(left.map(({ batch }) => batch))
      for (const [i, { sequence }] of left.entries()) if (done[i]) disk.delivered(sequence)
      left = left.filter((_, i) => !done[i])
      if (left.length === 0 || stopping.aborted) return
      await pause()
    }
  }

  async function pause(): Promise<void> {
    await sleep(AGAIN_MS, undefined, { signal: stopping }).catch(() => {})
  }

  async function stop(): Promise<void> {
    await running
    await disk.close()
  }

  return { put, stop }
}

interface Request {
  readonly sequence: number
  readonly batch: SpanBatch
}
