// From OTLP to stored spans and transitions. Each cell has a fresh Leyden, which gets whole passes over the load until the time is up,
// with enough requests in flight to fill its flushes. Wall time ends with the last acknowledgement, CPU time with the last transition.

import { setTimeout as sleep } from 'node:timers/promises'

import { cpuSeconds, peakMegabytes, startLeyden } from './leyden.ts'
import { freshBody, makeLoad } from './load.ts'
import { grpcSender, httpSender } from './send.ts'
import { formatTable } from './table.ts'

export interface IngestOptions {
  readonly batches: readonly number[]
  readonly transports: readonly string[]
  readonly seconds: number
}

const SPANS = 8_192
const SPANS_IN_FLIGHT = 10_000
const DRAIN_MS = 60_000

export async function ingest({ batches, transports, seconds }: IngestOptions): Promise<void> {
  const rows: (string | number)[][] = []
  for (const batch of batches) for (const transport of transports) rows.push(await measure(transport, batch, seconds))
  console.log(
    formatTable(
      [
        'transport',
        'spans a request',
        'spans/s',
        'spans per CPU-second of Leyden',
        'of ClickHouse',
        'peak MB Leyden',
        'ClickHouse',
        'ack p50 ms',
        'p99 ms',
        'failed requests',
        'spans acknowledged',
        'stored',
        'policy calls',
        'transitions',
      ],
      rows,
    ),
  )
}

async function measure(transport: string, batch: number, seconds: number): Promise<(string | number)[]> {
  const load = makeLoad(batch, SPANS)
  const inFlight = Math.min(1_000, Math.max(32, Math.ceil(SPANS_IN_FLIGHT / batch)))
  const leyden = await startLeyden(transport === 'grpc-js' ? transport : 'auto')
  const sender = transport === 'http' ? httpSender(leyden.http, inFlight) : grpcSender(leyden.grpc)
  const cpu = async () => ({ leyden: await cpuSeconds(leyden.pid), clickhouse: await cpuSeconds(leyden.clickhousePid) })
  try {
    const before = await cpu()
    const { passes, acknowledged, failed, latencies, wall } = await sendPasses()
    const { stored, transitions } = await drained(passes * load.calls)
    const after = await cpu()
    latencies.sort()
    return [
      transport,
      batch,
      Math.round(acknowledged / wall),
      Math.round(acknowledged / (after.leyden - before.leyden)),
      Math.round(acknowledged / (after.clickhouse - before.clickhouse)),
      Math.round(await peakMegabytes(leyden.pid)),
      Math.round(await peakMegabytes(leyden.clickhousePid)),
      Math.round(latencies.at(latencies.length * 0.5)!),
      Math.round(latencies.at(latencies.length * 0.99)!),
      failed,
      acknowledged,
      stored,
      passes * load.calls,
      transitions,
    ]
  } finally {
    sender.close()
    await leyden.stop()
  }

  async function sendPasses() {
    const latencies: number[] = []
    const count = load.requests.length
    const start = performance.now()
    let next = 0
    let last = Infinity
    let acknowledged = 0
    let failed = 0
    let end = start
    const worker = async () => {
      for (let i = next++; i < last; i = next++) {
        if (i % count === 0 && performance.now() - start > seconds * 1000) {
          last = i
          return
        }
        const request = load.requests[i % count]!
        const body = freshBody(request, Math.floor(i / count))
        const sent = performance.now()
        try {
          await sender.send(body)
          end = performance.now()
          latencies.push(end - sent)
          acknowledged += request.spans
        } catch {
          failed++
        }
      }
    }
    await Promise.all(Array.from({ length: inFlight }, worker))
    return { passes: last / count, acknowledged, failed, latencies: Float64Array.from(latencies), wall: (end - start) / 1000 }
  }

  async function drained(calls: number): Promise<{ stored: number; transitions: number }> {
    for (const deadline = Date.now() + DRAIN_MS; ; await sleep(500)) {
      const [counts] = await leyden.query('SELECT (SELECT count() FROM spans), (SELECT count() FROM transitions)')
      const [stored, transitions] = counts!.map(Number) as [number, number]
      if (transitions >= calls || Date.now() > deadline) return { stored, transitions }
    }
  }
}
