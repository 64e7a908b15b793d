// What the endpoint adds to a model server: in time at a steady rate, in requests a second when there is no end of them, and until the
// first token of a stream; against the server alone, and against a bare proxy that records nothing. Client and server have one core, what is
// measured has the other, where `taskset` is.
//
// First by itself: a process of its own, as docker-compose.yaml has it, that sends every call to a server which acknowledges it and does
// nothing with it, as if the pipeline were on another machine. So all that recording costs the endpoint is in its figures, and nothing that
// takes the core of client and server from them: an insert, which ClickHouse works on for 20 ms, would be in the time of every answer that
// waits for that core, though not in what the endpoint does. Then with what is left out there, for whoever has one machine of two cores: with
// pipeline and ClickHouse beside client and server, and all of Leyden in one process.

import { fork, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { startClickHouse } from './clickhouse.ts'
import { ownDecoder } from './endpoint_decoder.ts'
import { ENDPOINT_FLAGS, startEndpoint, startPipeline, startWhole, type MeasuredLeyden } from './endpoint_leyden.ts'
import { chatClient, type ChatClient, type Sent } from './endpoint_load.ts'
import { cpuSeconds, end, peakMegabytes } from './processes.ts'
import { quantile } from './quantile.ts'
import { formatTable } from './table.ts'

const RATE = 1_000
const STREAM_RATE = 100
const WARM_STREAM_RATE = 400
const CLIENTS = 32
const ROUNDS = 5
/**
 * What has run often is compiled while it runs, by threads of V8's own, which on a single core take turns of up to 4 ms with what answers: so
 * long at the beginning that is what the slowest hundredth waits for, here, in the proxy and in the endpoint.
 */
const WARM_SECONDS = 15

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
  const clickhouse = await startClickHouse()
  ends.push(clickhouse.stop)
  const upstream = await startPeer('endpoint_peer.js', 'upstream')
  ends.push(() => upstream.child.disconnect())
  const proxy = await startPeer('endpoint_peer.js', 'proxy', String(upstream.port))
  ends.push(() => proxy.child.disconnect())
  const elsewhere = await startPeer('endpoint_peer.js', 'pipeline')
  ends.push(() => elsewhere.child.disconnect())
  const started = (leyden: MeasuredLeyden): MeasuredLeyden => {
    pin(1, [leyden.child.pid!])
    // Not SIGTERM: it would first close every rollout that is open.
    ends.push(() => end(leyden.child, 'SIGKILL'))
    return leyden
  }
  const alone = started(await startEndpoint(clickhouse, upstream.port, elsewhere.port))
  pin(0, [process.pid, upstream.child.pid!, elsewhere.child.pid!, clickhouse.pid])
  pin(1, [proxy.child.pid!])
  const peers: Target[] = [
    { name: 'server alone', port: upstream.port, pid: undefined },
    { name: 'bare proxy', port: proxy.port, pid: proxy.child.pid },
  ]
  console.log(
    'Core 0: client, model server, and a server that acknowledges calls. Core 1: bare proxy, endpoint. One is measured at a time.\n',
  )
  await tables([...peers, { name: 'endpoint', port: alone.port, pid: alone.child.pid }], seconds)
  console.log(`\npeak memory of the endpoint: ${Math.round(await peakMegabytes(alone.child.pid!))} MB`)

  const pipeline = await startPipeline(clickhouse)
  ends.push(() => end(pipeline.child, 'SIGKILL'))
  const another = await startClickHouse()
  ends.push(another.stop)
  const beside = started(await startEndpoint(clickhouse, upstream.port, pipeline.http, true))
  const whole = started(await startWhole(another, upstream.port))
  pin(0, [pipeline.child.pid!, another.pid])
  const all = [
    ...peers,
    { name: 'endpoint, pipeline', port: beside.port, pid: beside.child.pid },
    { name: 'one process', port: whole.port, pid: whole.child.pid },
  ]
  console.log('\nCore 0: client, model server, pipeline, ClickHouse. Core 1: bare proxy, endpoint, one process.\n')
  await tables(all, seconds)
  await ownDecoder(beside.port, clickhouse, seconds)
}

async function tables(targets: readonly Target[], seconds: number): Promise<void> {
  await atRate(targets, seconds)
  await atOnce(targets, seconds)
  await streams(targets, seconds)
}

type Load = (client: ChatClient) => Promise<Sent>

/** Each target in turn, several times: one set of figures a target. */
async function inTurn(targets: readonly Target[], stream: boolean, load: Load, warmUp: Load) {
  const measured = []
  for (const target of targets) {
    const client = await chatClient(target.port, stream)
    await warmUp(client)
    measured.push({ ...target, client, sent: [] as Sent[], cpu: [] as number[] })
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const { pid, client, sent, cpu } of measured) {
      const before = pid === undefined ? NaN : await cpuSeconds(pid)
      sent.push(await load(client))
      cpu.push(pid === undefined ? NaN : (await cpuSeconds(pid)) - before)
    }
  }
  for (const { client } of measured) client.close()
  return measured
}

async function atRate(targets: readonly Target[], seconds: number): Promise<void> {
  const results = await inTurn(
    targets,
    false,
    (client) => client.atRate(RATE, seconds),
    (client) => client.atRate(RATE, WARM_SECONDS),
  )
  console.log(`${RATE.toLocaleString('en')} requests a second, milliseconds to the answer (median of ${ROUNDS} rounds)\n`)
  console.log(formatTable(['', 'p50', 'added', 'p99', 'added', 'failed', 'CPU'], latencies(results)))
}

async function streams(targets: readonly Target[], seconds: number): Promise<void> {
  const results = await inTurn(
    targets,
    true,
    (client) => client.atRate(STREAM_RATE, seconds),
    (client) => client.atRate(WARM_STREAM_RATE, WARM_SECONDS),
  )
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
  const load: Load = (client) => client.atOnce(CLIENTS, seconds)
  const results = await inTurn(targets.slice(1), false, load, load)
  const rates = results.map(({ sent }) => median(sent.map(({ times, seconds: took }) => times.length / took)))
  const perCpu = results.map(({ sent, cpu }) => median(sent.map(({ times }, i) => times.length / cpu[i]!)))
  const rows = results.map(({ name }, i) => [
    ...[name, Math.round(rates[i]!), (rates[i]! / rates[0]!).toFixed(2), Math.round(perCpu[i]!), (perCpu[i]! / perCpu[0]!).toFixed(2)],
  ])
  console.log(`\n${CLIENTS} clients without a pause\n`)
  console.log(formatTable(['', 'requests/s', 'to the proxy', 'requests per CPU-second', 'to the proxy'], rows))
}

/** A process that tells its port. It is started as the endpoint is: helper threads of what stands around that are no part of what it adds. */
async function startPeer(file: string, ...args: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, { execArgv: ENDPOINT_FLAGS })
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

function pin(core: number, pids: readonly number[]): void {
  for (const pid of pids) spawnSync('taskset', ['-a', '-p', '-c', String(core), String(pid)], { stdio: 'ignore' })
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
