// A steady rate of spans, as agents send them, rather than as many as can be taken: how long a request waits for its acknowledgement, and
// how much memory that takes with so many rollouts open. Requests are sent when they are due, whether or not those before them were
// answered, and their time counts from then.

import { setTimeout as sleep } from 'node:timers/promises'

import { findCollector, startCollector } from './collector.ts'
import { startLeyden } from './leyden.ts'
import { freshBody, makeLoad } from './load.ts'
import { cpuSeconds, megabytes, peakMegabytes } from './processes.ts'
import { grpcSender, httpSender, type Sender } from './send.ts'
import { formatTable } from './table.ts'

interface SteadyOptions {
  readonly transports: readonly string[]
  /** Spans a second. */
  readonly rate: number
  /** Rollouts that are open at any time, about. */
  readonly open: number
  readonly seconds: number
  /** Folder of a built Collector; '' for none. */
  readonly collector: string
}

interface Target {
  readonly grpc: string
  readonly http: string
  readonly pid: number
  readonly clickhouse: { readonly pid: number }
  /** How many rollouts are open; none where that is not known. */
  openRollouts?(): Promise<number>
  stop(): Promise<void>
}

const SPANS = 8_192
const BATCH = 64
const CONNECTIONS = 64

export async function steady({ transports, rate, open, seconds, collector }: SteadyOptions): Promise<void> {
  const load = makeLoad(BATCH, SPANS)
  const runs = load.requests.reduce((sum, { rollouts }) => sum + rollouts.length, 0)
  const rootGrace = `${Math.ceil((open * 1_000 * load.spans) / runs / rate)}ms`
  const binary = collector === '' ? null : await findCollector(collector)
  const candidates: [string, () => Promise<Target>][] = [
    ['Leyden', () => startLeyden({ rootGrace })],
    ...(binary ? [['Collector', () => startCollector(binary)] as [string, () => Promise<Target>]] : []),
  ]
  const rows: (string | number)[][] = []
  for (const transport of transports) {
    for (const [name, start] of candidates) rows.push([name, transport, ...(await measure(await start(), transport))])
  }
  console.log(`${rate} spans a second, ${BATCH} a request; a rollout waits ${rootGrace} for late spans\n`)
  console.log(formatTable(HEADER, rows))

  async function measure(target: Target, transport: string): Promise<(string | number)[]> {
    const sender = transport === 'http' ? httpSender(target.http, CONNECTIONS) : grpcSender(target.grpc)
    const cpu = () => Promise.all([target.pid, target.clickhouse.pid].map(cpuSeconds))
    try {
      // First as long again to warm up: code is compiled as it runs, and rollouts begin to be closed.
      const warm = await send(sender, 0)
      const before = await cpu()
      const { latencies, failed, acknowledged, wall } = await send(sender, warm.passes)
      return [
        ...[acknowledged / wall, latencies.at(latencies.length * 0.5)!, latencies.at(latencies.length * 0.99)!, latencies.at(-1)!].map(
          Math.round,
        ),
        ...[failed, ...(await cpu()).map((spent, i) => `${Math.round((100 * (spent - before[i]!)) / wall)} %`)],
        (await target.openRollouts?.()) ?? '',
        ...[await megabytes(target.pid), await peakMegabytes(target.pid)].map(Math.round),
      ]
    } finally {
      sender.close()
      await target.stop()
    }
  }

  /** @param first number of the first pass over the load: each has ids of its own */
  async function send(sender: Sender, first: number) {
    const latencies: number[] = []
    const pending = new Set<Promise<void>>()
    const count = load.requests.length
    let sent = 0
    let acknowledged = 0
    let failed = 0
    const start = performance.now()
    for (let i = 0; performance.now() < start + 1_000 * seconds; i++) {
      const request = load.requests[i % count]!
      const body = freshBody(request, first + Math.floor(i / count))
      const due = start + (1_000 * sent) / rate
      if (due > performance.now()) await sleep(due - performance.now())
      sent += request.spans
      const one = sender.send(body).then(
        () => {
          latencies.push(performance.now() - due)
          acknowledged += request.spans
        },
        () => void failed++,
      )
      pending.add(one.finally(() => pending.delete(one)))
    }
    await Promise.all(pending)
    const wall = (performance.now() - start) / 1_000
    return { passes: first + Math.ceil(sent / load.spans), latencies: Float64Array.from(latencies).sort(), failed, acknowledged, wall }
  }
}

const HEADER = ['what', 'transport', 'spans/s', 'ack p50 ms', 'p99 ms', 'most', 'failed'].concat([
  ...['CPU', 'of its ClickHouse', 'open rollouts', 'MB', 'peak MB'],
])
