// Hands the spans of calls to the pipelines, and keeps those that cannot be taken now, within a bound: whoever is answered does not
// wait for the store, and the endpoint goes on while that is away.

import { setTimeout as sleep } from 'node:timers/promises'

import { scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { Permanent, type Consumer, type Context } from '../pipeline/component.ts'
import { messageOf } from '../pipeline/retry.ts'
import { addCall, type CallRecord } from './call_span.ts'
import { createSpanWriter } from './span_bytes.ts'

export interface Recorder {
  record(call: CallRecord): void
  /** Resolves when all that was recorded is taken, or cannot be taken within this time. */
  drain(ms: number): Promise<void>
}

const RETRY_MS = 1_000
/** Batches go no faster one after the other: for the store, many calls together cost little more than one. */
const HAND_ON_MS = 20
/**
 * Then one goes as soon as an answer is out and no other is under way: that is when nobody waits, and the next request is farthest off. Where there
 * is always somebody who waits, it goes after so long.
 */
const LATEST_MS = 60
/** But no larger than this, and one call: whoever they are sent to has a limit, 4 MiB as a rule. */
const HAND_ON_BYTES = 1024 * 1024
/** So long calls are written at a time, for answers come first; so many may wait for it. */
const SLICE_MS = 0.3
const MOST_UNWRITTEN = 64

/**
 * @param maxBytes of spans that are not taken yet; what does not fit is lost, and counted
 * @param answering whether anybody waits for an answer
 */
export function createRecorder(
  next: Consumer<'traces'>,
  maxBytes: number,
  answering: () => boolean,
  { count, gauge, log }: Pick<Context, 'count' | 'gauge' | 'log'>,
): Recorder {
  /** Calls as they ended, then as spans. */
  const unwritten: CallRecord[] = []
  const spans = createSpanWriter()
  let handedOn = 0
  let timer: NodeJS.Timeout | undefined
  /** In the order in which they came. */
  const waiting: SpanBatch[] = []
  const underWay = new Set<Promise<void>>()
  const stopping = new AbortController()
  let held = 0
  let retrying: Promise<void> | undefined
  let losing = false

  gauge('leyden_endpoint_queued_bytes', () => held)

  function record(call: CallRecord): void {
    if (unwritten.push(call) === 1) setImmediate(writeSome)
  }

  function writeSome(): void {
    const until = performance.now() + SLICE_MS
    while (unwritten.length > MOST_UNWRITTEN || (unwritten.length > 0 && performance.now() < until)) write(unwritten.shift()!)
    if (unwritten.length > 0) setImmediate(writeSome)
    if (spans.size() === 0) return
    const now = performance.now()
    timer ??= setTimeout(handOn, handedOn + LATEST_MS - now)
    if (now >= handedOn + HAND_ON_MS) setImmediate(handOnIfIdle)
  }

  /** What has come in the meantime has been read by now, so that it is known whether somebody waits. */
  function handOnIfIdle(): void {
    if (spans.size() > 0 && !answering()) handOn()
  }

  function write(call: CallRecord): void {
    addCall(spans, call)
    if (spans.size() >= HAND_ON_BYTES) handOn()
  }

  function handOn(): void {
    clearTimeout(timer)
    const { batch } = scan('traces', spans.take())
    handedOn = performance.now()
    timer = undefined
    if (held + batch.body.length > maxBytes) return lost(batch, 'there is no room for more calls that wait to be stored')
    held += batch.body.length
    if (waiting.length > 0) waiting.push(batch)
    else void tracked(send(batch))
  }

  async function send(batch: SpanBatch): Promise<void> {
    try {
      await next([batch])
      taken(batch)
    } catch (error) {
      if (error instanceof Permanent) {
        held -= batch.body.length
        return lost(batch, error.message)
      }
      waiting.push(batch)
      retrying ??= tracked(retry(error))
    }
  }

  async function retry(first: unknown): Promise<void> {
    log.warn('Calls cannot be stored and wait', { error: messageOf(first) })
    while (waiting.length > 0) {
      await sleep(RETRY_MS, undefined, { signal: stopping.signal }).catch(() => {})
      const last = stopping.signal.aborted
      const [batch] = waiting
      try {
        await next([batch!])
        taken(batch!)
        waiting.shift()
        // The store is back: the others need not queue behind each other.
        for (const other of waiting.splice(0)) void tracked(send(other))
      } catch (error) {
        if (last || error instanceof Permanent) {
          held -= batch!.body.length
          lost(waiting.shift()!, messageOf(error))
        }
      }
    }
    retrying = undefined
  }

  function taken(batch: SpanBatch): void {
    held -= batch.body.length
    losing = false
    count('receiver_accepted_spans', batch.count, { transport: 'http' })
  }

  function lost(batch: SpanBatch, why: string): void {
    count('receiver_refused_spans', batch.count, { transport: 'http' })
    count('leyden_endpoint_calls_lost', batch.count)
    if (!losing) log.warn('Calls are answered and not stored', { why })
    losing = true
  }

  function tracked(work: Promise<void>): Promise<void> {
    underWay.add(work)
    return work.finally(() => underWay.delete(work))
  }

  async function drain(ms: number): Promise<void> {
    while (unwritten.length > 0) writeSome()
    if (spans.size() > 0) handOn()
    const patience = setTimeout(() => stopping.abort(), ms)
    while (underWay.size > 0) await Promise.all(underWay)
    clearTimeout(patience)
  }

  return { record, drain }
}
