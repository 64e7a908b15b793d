// Sends requests that no client would send to a Leyden of its own with a ClickHouse of its own: a receiver, the rollouts connector and all
// that comes after it. What must hold: the process lives, every request is answered in time and by a status that it deserves, a good
// request is taken after all others, memory does not grow with their number, and every item is accounted for, exactly.

import { setTimeout as sleep } from 'node:timers/promises'

import { partialSuccess } from '../data/otlp_reply.ts'
import { fuzzRequest, type FuzzRequest } from './fuzz_requests.ts'
import { fuzzSender, type Answer } from './fuzz_send.ts'
import { startLeyden, type Leyden } from './leyden.ts'
import { megabytes } from './processes.ts'

export interface Fuzzed {
  /** How many requests got each answer. */
  readonly answers: Readonly<Record<string, number>>
  /** What must not happen, with the number of the run. */
  readonly failures: readonly string[]
  /** Undefined where it came to an end before its time. */
  readonly items: Items | undefined
  /** Resident, after a tenth of the runs and after all. */
  readonly megabytes: { readonly early: number; readonly end: number }
  readonly seconds: number
}

/** What became of the spans and log records of the requests that could be read. */
export interface Items {
  readonly accepted: number
  readonly refused: number
  readonly stored: number
  readonly quarantined: number
}

export interface FuzzOptions {
  readonly seed: number
  /** The first run; those before it are left out. */
  readonly offset: number
  readonly runs: number
  progress?(done: number): void
}

/** Many, since an answer waits for ClickHouse. */
const IN_FLIGHT = 256
/** Enough to find what is wrong. */
const MAX_FAILURES = 10
/** What a heap may take without having grown for good. */
const GROWTH_MB = 150
const PROGRESS_EVERY = 10_000

const TAKEN = ['http 200', 'grpc 0']
/** The request is at fault; by gRPC what cannot be decompressed has a code of its own. */
const AT_FAULT = ['http 400', 'grpc 3', 'grpc 13']
/** A damaged gzip body may claim the room of many others; they are told to come again, and do. */
const AGAIN = ['http 503', 'grpc 14']
const MAX_TRIES = 20
const AGAIN_MS = 100

export async function fuzz({ seed, offset, runs, progress }: FuzzOptions): Promise<Fuzzed> {
  const leyden = await startLeyden({ idleTimeout: '10s' })
  const sender = fuzzSender({ http: leyden.http, grpc: `http://${leyden.grpc}` }, IN_FLIGHT)
  const answers: Record<string, number> = {}
  const failures: string[] = []
  let rejected = 0
  const memory = { early: 0, end: 0 }
  const began = performance.now()
  let next = 0

  async function worker(): Promise<void> {
    for (let i = next++; i < runs && failures.length < MAX_FAILURES; i = next++) {
      const run = offset + i
      const request = fuzzRequest(seed, run)
      const { status } = await settled(request)
      if (![...TAKEN, ...AT_FAULT].includes(status)) failures.push(`run ${run}: ${status}`)
      if (i === Math.floor(runs / 10)) memory.early = Math.round(await megabytes(leyden.pid))
      if ((i + 1) % PROGRESS_EVERY === 0) progress?.(i + 1)
    }
  }

  async function settled(request: FuzzRequest): Promise<Answer> {
    for (let tries = 1; ; tries++) {
      const answer = await sender.send(request)
      answers[answer.status] = (answers[answer.status] ?? 0) + 1
      if (TAKEN.includes(answer.status)) rejected += rejectedIn(request, answer.body)
      if (!AGAIN.includes(answer.status) || tries === MAX_TRIES) return answer
      await sleep(AGAIN_MS)
    }
  }

  try {
    await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
    memory.end = Math.round(await megabytes(leyden.pid))
    if (memory.end > memory.early + GROWTH_MB) failures.push(`memory grew from ${memory.early} to ${memory.end} MB`)
    for (const transport of ['http', 'grpc'] as const) {
      const { status } = await settled({ transport, signal: 'traces', json: false, gzip: false, body: Buffer.alloc(0) })
      if (!TAKEN.includes(status)) failures.push(`a good request after all others: ${status}`)
    }
    const counted = failures.length < MAX_FAILURES ? await count(leyden) : undefined
    if (counted) failures.push(...unaccounted(counted, answers, rejected))
    return { answers, failures, items: counted?.items, megabytes: memory, seconds: (performance.now() - began) / 1_000 }
  } finally {
    sender.close()
    await leyden.stop()
  }
}

/** How many items of a request that was taken its answer says were not. */
function rejectedIn({ signal, json }: FuzzRequest, body: Buffer): number {
  if (!json) return body.length === 0 ? 0 : (partialSuccess(signal, body)?.rejected ?? 0)
  const { partialSuccess: partial = {} } = JSON.parse(body.toString()) as { partialSuccess?: Record<string, string> }
  return Number(partial.rejectedSpans ?? partial.rejectedLogRecords ?? 0)
}

type Count = Awaited<ReturnType<typeof count>>

async function count({ metrics, clickhouse }: Leyden) {
  const text = await metrics()
  const total = (name: RegExp) => [...text.matchAll(name)].reduce((sum, [, n]) => sum + Number(n), 0)
  const requests = (outcome: string) => total(new RegExp(`^otelcol_receiver_requests_total{.*outcome="${outcome}"} (\\d+)$`, 'gm'))
  const [stored] = await clickhouse.numbers('SELECT count() FROM spans')
  return {
    requests: { success: requests('success'), refused: requests('refused'), all: total(/^otelcol_receiver_requests_total{.*} (\d+)$/gm) },
    items: {
      accepted: total(/^otelcol_receiver_accepted_(?:spans|log_records)_total{.*} (\d+)$/gm),
      refused: total(/^otelcol_receiver_refused_(?:spans|log_records)_total{.*} (\d+)$/gm),
      stored: stored!,
      quarantined: total(/^leyden_quarantined_items_total{.*} (\d+)$/gm),
    },
  }
}

/** Received = accepted + refused, as the answers have it; accepted = stored + quarantined, since nothing is queued any more. */
function unaccounted({ requests, items }: Count, answers: Readonly<Record<string, number>>, rejected: number): string[] {
  const answered = (statuses: readonly string[]) => statuses.reduce((sum, status) => sum + (answers[status] ?? 0), 0)
  const same: readonly [string, number, number][] = [
    ['requests answered, and counted', answered(Object.keys(answers)), requests.all],
    ['requests taken, and counted as taken', answered(TAKEN), requests.success],
    // The items of a whole request that has to come again are not named.
    ['items named as rejected, and counted as refused', requests.refused > 0 ? items.refused : rejected, items.refused],
    ['items accepted, and stored or quarantined', items.accepted, items.stored + items.quarantined],
  ]
  return [
    ...same.filter(([, one, other]) => one !== other).map(([what, one, other]) => `${what}: ${one}, ${other}`),
    ...(items.accepted === 0 ? ['no item was accepted'] : []),
  ]
}
