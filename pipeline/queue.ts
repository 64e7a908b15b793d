// What stands between a pipeline and an exporter: queue, batches, retries, timeout, and the counts of all of them.
// One for each signal of an exporter. Batches join whole requests; a request is never cut.

import { detached, type SpanBatch } from '../data/span_batch.ts'
import { Permanent, Refused, type Context, type Exporter, type Item, type Signal } from './component.ts'
import type { DiskQueue } from './disk/disk_queue.ts'
import { persistent, type Persistent } from './disk/persistent.ts'
import { messageOf, retry, within } from './retry.ts'
import type { Sending } from './sending.ts'
import { sizeOf, UNIT } from './size.ts'

export interface Sender {
  /** Resolves when the items are exported (or queued, without `wait_for_result`). The sender's own are not read after that. */
  send(items: readonly Item[]): Promise<void>
  /** Takes no more; resolves when everything taken was exported or given up. `stopping` must have fired. */
  drain(): Promise<void>
}

/** So many requests from disk wait in memory, or are sent. */
const STORED_UNDER_WAY = 1_000

interface Request {
  readonly items: readonly Item[]
  /** In units of `sending_queue::batch::sizer`. */
  readonly size: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * `sending` is absent for an exporter that does not offer these options: its requests go straight to it. With `disk`, requests
 * are written there, and queue from there.
 */
export function createSender(
  exporter: Exporter,
  signal: Signal,
  sending: Sending | undefined,
  context: Context,
  stopping: AbortSignal,
  disk?: DiskQueue,
): Sender {
  const unit = UNIT[signal]
  const labels = { data_type: signal }
  const queue = sending?.sending_queue.enabled ? sending.sending_queue : undefined
  const batch = queue?.batch
  const inFlight = new Set<Promise<void>>()
  const waiting: Request[] = []
  const blocked: (() => void)[] = []
  let used = queue && disk ? disk.size[queue.sizer] : 0
  let waitingSize = 0
  let sendingNow = 0
  let draining = false
  let overdue = false
  let timer: NodeJS.Timeout | undefined

  context.gauge('exporter_in_flight_requests', () => sendingNow, labels)
  if (queue) {
    context.gauge('exporter_queue_size', () => used, labels)
    context.gauge('exporter_queue_capacity', () => queue.queue_size, labels)
  }

  if (disk) context.gauge('leyden_queued_items', () => disk.size.items, labels)
  const stored = disk && persistent({ disk, deliver: sendStored, lot: 1, lots: STORED_UNDER_WAY, context, stopping })

  // Whoever waits for a batch to fill up would keep its receiver from stopping.
  stopping.addEventListener('abort', pump)

  async function send(items: readonly Item[]): Promise<void> {
    if (draining) throw new Refused('the exporter is shutting down')
    await takeRoom(items)
    if (stored) return store(items, stored)
    const waits = signal === 'rollouts' || queue?.wait_for_result !== false
    const sent = enqueue(waits ? items : (items as readonly SpanBatch[]).map(detached)).finally(() => giveRoom(items))
    if (waits) await sent
    else sent.catch(() => {})
  }

  async function store(items: readonly Item[], { put }: Persistent): Promise<void> {
    try {
      await put(items as readonly SpanBatch[])
    } catch (error) {
      giveRoom(items)
      context.count(`exporter_enqueue_failed_${unit}`, sizeOf(items, 'items'), labels)
      throw error
    }
  }

  /** What the queue on disk hands on. What is given up goes back to it, so that one bad request does not stand in the way of others. */
  async function sendStored(request: readonly SpanBatch[]): Promise<boolean[]> {
    try {
      await enqueue(request)
    } catch (error) {
      if (!(error instanceof Permanent)) return [false]
    }
    giveRoom(request)
    return [true]
  }

  function enqueue(items: readonly Item[]): Promise<void> {
    const size = batch ? sizeOf(items, batch.sizer) : 0
    waitingSize += size
    const result = new Promise<void>((resolve, reject) => waiting.push({ items, size, resolve, reject })).finally(() => {
      inFlight.delete(result)
    })
    inFlight.add(result)
    pump()
    return result
  }

  async function takeRoom(items: readonly Item[]): Promise<void> {
    if (!queue) return
    const { queue_size, block_on_overflow, sizer } = queue
    const room = sizeOf(items, sizer)
    const refuse = (error: Error) => {
      context.count(`exporter_enqueue_failed_${unit}`, sizeOf(items, 'items'), labels)
      throw error
    }
    if (room > queue_size) refuse(new Permanent(`a request of ${room} ${sizer} does not fit a queue of ${queue_size}`))
    while (used + room > queue_size) {
      if (!block_on_overflow) refuse(new Refused('sending queue is full'))
      await new Promise<void>((resolve) => blocked.push(resolve))
      if (draining) refuse(new Refused('the exporter is shutting down'))
    }
    used += room
  }

  function giveRoom(items: readonly Item[]): void {
    if (!queue) return
    used -= sizeOf(items, queue.sizer)
    for (const wake of blocked.splice(0)) wake()
  }

  function pump(): void {
    while (waiting.length && (!queue || sendingNow < queue.num_consumers)) {
      if (batch && !overdue && !stopping.aborted && waitingSize < batch.min_size) break
      void deliver(take()).finally(pump)
    }
    if (batch && waiting.length) timer ??= setTimeout(flush, batch.flush_timeout)
  }

  function flush(): void {
    timer = undefined
    overdue = true
    pump()
  }

  /** The next request, or as many as one batch holds. */
  function take(): Request[] {
    clearTimeout(timer)
    timer = undefined
    overdue = false
    const taken = [waiting.shift()!]
    let size = taken[0]!.size
    while (batch && waiting.length && (batch.max_size === 0 || size + waiting[0]!.size <= batch.max_size)) {
      size += waiting[0]!.size
      taken.push(waiting.shift()!)
    }
    waitingSize -= size
    return taken
  }

  async function deliver(requests: readonly Request[]): Promise<void> {
    const items = requests.length === 1 ? requests[0]!.items : requests.flatMap((request) => request.items)
    const count = sizeOf(items, 'items')
    sendingNow++
    try {
      await attempt(items)
      context.health(null)
      context.count(`exporter_sent_${unit}`, count, labels)
      for (const { resolve } of requests) resolve()
    } catch (error) {
      // One bad request must not cost the others of its batch: each is tried alone.
      if (error instanceof Permanent && requests.length > 1) await Promise.all(requests.map((request) => deliver([request])))
      else {
        fail(error, count)
        for (const { reject } of requests) reject(error)
      }
    } finally {
      sendingNow--
    }
  }

  function fail(error: unknown, count: number): void {
    const permanent = error instanceof Permanent
    if (!permanent) context.health(messageOf(error))
    if (disk && !permanent) return
    context.count(`exporter_send_failed_${unit}`, count, { ...labels, error_permanent: String(permanent) })
    const outcome = disk || queue?.wait_for_result === false ? 'Dropping' : 'Rejecting'
    context.log.error(`Exporting failed. ${outcome} data.`, { error: messageOf(error), [unit]: count })
  }

  async function attempt(items: readonly Item[]): Promise<void> {
    if (!sending) return exporter.export(items, signal, new AbortController().signal)
    await retry(
      () => within(sending.timeout, (abort) => exporter.export(items, signal, abort)),
      sending.retry_on_failure,
      stopping,
      (error, waitMs) => {
        context.health(messageOf(error))
        context.log.info('Exporting failed. Will retry the request after interval.', {
          error: messageOf(error),
          interval: `${(waitMs / 1_000).toFixed(3)}s`,
        })
      },
    )
  }

  async function drain(): Promise<void> {
    draining = true
    for (const wake of blocked.splice(0)) wake()
    await stored?.stop()
    await Promise.allSettled([...inFlight])
  }

  return { send, drain }
}
