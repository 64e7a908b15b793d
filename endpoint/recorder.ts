// Hands the spans of calls to the pipelines, and keeps those that cannot be taken now, within a bound: whoever is answered does not
// wait for the store, and the endpoint goes on while that is away.

import { setTimeout as sleep } from 'node:timers/promises'

import { fromJson } from '../data/otlp_json.ts'
import { scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { Permanent, type Consumer, type Context } from '../pipeline/component.ts'
import { messageOf } from '../pipeline/retry.ts'
import { callSpan, type CallRecord } from './call_span.ts'

export interface Recorder {
  record(call: CallRecord): void
  /** Resolves when all that was recorded is taken, or cannot be taken within this time. */
  drain(ms: number): Promise<void>
}

const RETRY_MS = 1_000
const SCOPE = { name: 'leyden.openai' }
const RESOURCE = { attributes: [{ key: 'service.name', value: { stringValue: 'leyden' } }] }

/** @param maxBytes of spans that are not taken yet; what does not fit is lost, and counted */
export function createRecorder(
  next: Consumer<'traces'>,
  maxBytes: number,
  { count, gauge, log }: Pick<Context, 'count' | 'gauge' | 'log'>,
): Recorder {
  let fresh: CallRecord[] = []
  /** In the order in which they came. */
  const waiting: SpanBatch[] = []
  const underWay = new Set<Promise<void>>()
  const stopping = new AbortController()
  let held = 0
  let retrying: Promise<void> | undefined
  let losing = false

  gauge('leyden_endpoint_queued_bytes', () => held)

  function record(call: CallRecord): void {
    // All that end in one turn of the event loop go together, and after their answers.
    if (fresh.length === 0) setImmediate(handOn)
    fresh.push(call)
  }

  function handOn(): void {
    const calls = fresh
    fresh = []
    const { batch } = batchOf(calls)
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
    if (fresh.length > 0) handOn()
    const timer = setTimeout(() => stopping.abort(), ms)
    while (underWay.size > 0) await Promise.all(underWay)
    clearTimeout(timer)
  }

  return { record, drain }
}

const batchOf = (calls: readonly CallRecord[]) =>
  scan(
    'traces',
    fromJson('traces', { resourceSpans: [{ resource: RESOURCE, scopeSpans: [{ scope: SCOPE, spans: calls.map(callSpan) }] }] }),
  )
