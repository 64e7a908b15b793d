// What the endpoint adds to a model server: in time at a steady rate, in requests a second when there is no end of them, and until the
// first token of a stream; against the server alone, and against a bare proxy that records nothing. Measured is the endpoint as
// docker-compose.yaml has it, a process of its own that sends its calls to a pipeline, and beside it everything in one process. Client, server,
// the pipeline and ClickHouse have one core, what is measured has the other, where `taskset` is.

import { fork, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { startClickHouse } from './clickhouse.ts'
import { ownDecoder } from './endpoint_decoder.ts'
import { startEndpoint, startPipeline, startWhole } from './endpoint_leyden.ts'
import { chatClient, quantile, type Sent } from './endpoint_load.ts'
import { cpuSeconds, end, peakMegabytes } from './processes.ts'
import { formatTable } from './table.ts'

const RATE = 1_000
const STREAM_RATE = 100
const CLIENTS = 32
const ROUNDS = 3

interface Target {
  readonly name: string
  readonly port: number
  readonly pid: number | undefined
}

export async function endpoint(seconds: number): Promise<void> {
  const ends: (() => Promise<void> | void)[] = []
  try {
    await measure(seconds, ends)
  } finally {
    for (const stop of ends.toReversed()) await stop()
  }
}

async function measure(seconds: number, ends: (() => Promise<void> | void)[]): Promise<void> {
  const started = <T extends { readonly child: ChildProcess }>(leyden: T): T => {
    // Not SIGTERM: it would first close every rollout that is open.
    ends.push(() => end(leyden.child, 'SIGKILL'))
    return leyden
  }
  const clickhouse = await startClickHouse()
  ends.push(clickhouse.stop)
  const another = await startClickHouse()
  ends.push(another.stop)
  const upstream = await startPeer('upstream')
  ends.push(() => upstream.child.disconnect())
  const proxy = await startPeer('proxy', String(upstream.port))
  ends.push(() => proxy.child.disconnect())
  const pipeline = started(await startPipeline(clickhouse))
  const leyden = started(await startEndpoint(clickhouse, upstream.port, pipeline.grpc))
  const whole = started(await startWhole(another, upstream.port))
  const targets: Target[] = [
    { name: 'server alone', port: upstream.port, pid: undefined },
    { name: 'bare proxy', port: proxy.port, pid: proxy.child.pid },
    { name: 'endpoint', port: leyden.port, pid: leyden.child.pid },
    { name: 'one process', port: whole.port, pid: whole.child.pid },
  ]
  console.log('Core 0: client, model server, pipeline, ClickHouse. Core 1: bare proxy, endpoint, one process. One is measured at a time.\n')
  pin(0, [process.pid, upstream.child.pid!, pipeline.child.pid!, clickhouse.pid, another.pid])
  pin(1, [proxy.child.pid!, leyden.child.pid!, whole.child.pid!])
  await atRate(targets, seconds)
  await atOnce(targets, seconds)
  await streams(targets, seconds)
  await ownDecoder(leyden.port, clickhouse, seconds)
  console.log(`peak memory of the endpoint: ${Math.round(await peakMegabytes(leyden.child.pid!))} MB`)
}

/** Each target in turn, several times: one set of figures a target. The first round warms up. */
async function inTurn(targets: readonly Target[], stream: boolean, load: (client: ReturnType<typeof chatClient>) => Promise<Sent>) {
  const results = new Map(targets.map(({ name }) => [name, { sent: [] as Sent[], cpu: [] as number[] }]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const { name, port, pid } of targets) {
      const client = chatClient(port, stream)
      const before = pid === undefined ? NaN : await cpuSeconds(pid)
      const sent = await load(client)
      const cpu = pid === undefined ? NaN : (await cpuSeconds(pid)) - before
      client.close()
      if (round === 0) continue
      results.get(name)!.sent.push(sent)
      results.get(name)!.cpu.push(cpu)
    }
  }
  return targets.map(({ name }) => ({ name, ...results.get(name)! }))
}

async function atRate(targets: readonly Target[], seconds: number): Promise<void> {
  const results = await inTurn(targets, false, (client) => client.atRate(RATE, seconds))
  console.log(`${RATE.toLocaleString('en')} requests a second, milliseconds to the answer (median of ${ROUNDS} rounds)\n`)
  console.log(formatTable(['', 'p50', 'added', 'p99', 'added', 'failed', 'CPU'], latencies(results)))
}

async function streams(targets: readonly Target[], seconds: number): Promise<void> {
  const results = await inTurn(targets, true, (client) => client.atRate(STREAM_RATE, seconds))
  console.log(`\n${STREAM_RATE} streams a second, milliseconds to the first token\n`)
  console.log(formatTable(['', 'p50', 'added', 'p99', 'added', 'failed', 'CPU'], latencies(results)))
}

function latencies(results: Awaited<ReturnType<typeof inTurn>>): string[][] {
  const at = (sent: readonly Sent[], q: number) => median(sent.map(({ times }) => quantile(times, q)))
  const [alone] = results
  const added = (sent: readonly Sent[], q: number) => (at(sent, q) - at(alone!.sent, q)).toFixed(2)
  return results.map(({ name, sent, cpu }) => [
    ...[name, at(sent, 0.5).toFixed(2), added(sent, 0.5), at(sent, 0.99).toFixed(2), added(sent, 0.99)],
    ...[
      String(sent.reduce((sum, { failed }) => sum + failed, 0)),
      Number.isNaN(cpu[0]) ? '' : `${((100 * median(cpu)) / median(sent.map((s) => s.seconds))).toFixed(0)} %`,
    ],
  ])
}

async function atOnce(targets: readonly Target[], seconds: number): Promise<void> {
  const results = await inTurn(targets.slice(1), false, (client) => client.atOnce(CLIENTS, seconds))
  const rates = results.map(({ sent }) => median(sent.map(({ times, seconds: took }) => times.length / took)))
  const perCpu = results.map(({ sent, cpu }) => median(sent.map(({ times }, i) => times.length / cpu[i]!)))
  const rows = results.map(({ name }, i) => [
    ...[name, Math.round(rates[i]!), (rates[i]! / rates[0]!).toFixed(2), Math.round(perCpu[i]!), (perCpu[i]! / perCpu[0]!).toFixed(2)],
  ])
  console.log(`\n${CLIENTS} clients without a pause\n`)
  console.log(formatTable(['', 'requests/s', 'to the proxy', 'requests per CPU-second', 'to the proxy'], rows))
}

async function startPeer(...args: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(fileURLToPath(new URL('endpoint_peer.js', import.meta.url)), args)
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

function pin(core: number, pids: readonly number[]): void {
  for (const pid of pids) spawnSync('taskset', ['-a', '-p', '-c', String(core), String(pid)], { stdio: 'ignore' })
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
