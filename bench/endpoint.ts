// What the endpoint adds to a model server: in time at a steady rate, in requests a second when there is no end of them, and until the
// first token of a stream; against the server alone, and against a bare proxy that records nothing. Then Leyden's own decoder: tokens a
// second for many agents, and what a new version does to them. Client and server share one core where `taskset` is, what is measured has another.

import { fork, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { initCheckpoint } from '../policy/checkpoint.ts'
import { openStorage } from '../storage/open.ts'
import { policiesOf } from '../storage/policies.ts'
import { startClickHouse, type ClickHouse } from './clickhouse.ts'
import { chatClient, quantile, type Sent } from './endpoint_load.ts'
import { launchLeyden } from './leyden.ts'
import { cpuSeconds, end, freePorts, peakMegabytes } from './processes.ts'
import { formatTable } from './table.ts'

const RATE = 1_000
const STREAM_RATE = 100
const CLIENTS = 32
const ROUNDS = 3
const AGENTS = 20
const SWAP_EVERY_MS = 1_000

interface Target {
  readonly name: string
  readonly port: number
  readonly pid: number | undefined
}

export async function endpoint(seconds: number): Promise<void> {
  const clickhouse = await startClickHouse()
  const upstream = await startPeer('upstream')
  const proxy = await startPeer('proxy', String(upstream.port))
  const leyden = await startLeyden(clickhouse, upstream.port)
  const targets: Target[] = [
    { name: 'server alone', port: upstream.port, pid: undefined },
    { name: 'bare proxy', port: proxy.port, pid: proxy.child.pid },
    { name: 'leyden', port: leyden.port, pid: leyden.child.pid },
  ]
  pin(0, [process.pid, upstream.child.pid!])
  pin(1, [proxy.child.pid!, leyden.child.pid!, clickhouse.pid])
  try {
    await atRate(targets, seconds)
    await atOnce(targets, seconds)
    await streams(targets, seconds)
    await ownDecoder(leyden.port, clickhouse, seconds)
    console.log(`peak memory of leyden: ${Math.round(await peakMegabytes(leyden.child.pid!))} MB`)
  } finally {
    // Not SIGTERM: it would first close every rollout that is open.
    await end(leyden.child, 'SIGKILL')
    upstream.child.disconnect()
    proxy.child.disconnect()
    await clickhouse.stop()
  }
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

/** Every agent asks again as soon as it has its answer; in the second half a version is published every second. */
async function ownDecoder(port: number, { folder, store }: ClickHouse, seconds: number): Promise<void> {
  const storage = await openStorage({ url: `embedded:${store}` })
  const policies = policiesOf(storage.client)
  const base = join(folder, 'base')
  const rows: (string | number)[][] = []
  for (const swapping of [false, true]) {
    let version = 0
    const publish = async () => {
      const path = makePolicy(join(folder, `version${++version}`), version)
      await policies.publish({ policy: 'own', version, base, path, parent: version - 1, status: 'live', trained_on: {}, metrics: {} })
    }
    const figures = await agents(port, seconds, swapping ? publish : undefined)
    rows.push([swapping ? `a new version each second (${version})` : 'one version', ...figures])
  }
  await storage.close()
  console.log(`\nown decoder: 50,000 parameters, ${AGENTS} agents, 64 tokens an answer\n`)
  console.log(formatTable(['', 'tokens/s', 'answers', 'failed', 'versions seen', 'longest pause (ms)'], rows))
}

async function agents(port: number, seconds: number, publish?: () => Promise<void>): Promise<(string | number)[]> {
  const [until, seen] = [performance.now() + 1_000 * seconds, new Set<string>()]
  let [tokens, answers, failed, pause, last] = [0, 0, 0, 0, performance.now()]
  const body = JSON.stringify({ model: 'own', stream: true, max_tokens: 64, messages: [{ role: 'user', content: 'Go on.' }] })
  const agent = async () => {
    while (performance.now() < until) {
      const reply = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', body })
      let text = ''
      for await (const part of reply.body!.pipeThrough(new TextDecoderStream())) {
        text += part
        pause = Math.max(pause, performance.now() - last)
        last = performance.now()
      }
      if (!text.includes('[DONE]')) failed++
      answers++
      tokens += text.split('"delta":{"content"').length - 1
      seen.add(/"system_fingerprint":"([^"]*)"/.exec(text)?.[1] ?? '')
    }
  }
  const publishing = (async () => {
    while (publish && performance.now() < until - SWAP_EVERY_MS) {
      await publish()
      await sleep(SWAP_EVERY_MS)
    }
  })()
  await Promise.all([publishing, ...Array.from({ length: AGENTS }, agent)])
  return [Math.round(tokens / seconds), answers, failed, seen.size, Math.round(pause)]
}

async function startPeer(...args: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(fileURLToPath(new URL('endpoint_peer.js', import.meta.url)), args)
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

async function startLeyden({ folder, store }: ClickHouse, upstream: number): Promise<{ child: ChildProcess; port: number }> {
  const [port, health] = (await freePorts(2)) as [number, number]
  const config = join(folder, 'pipeline.yaml')
  await writeFile(
    config,
    `
receivers:
  openai:
    endpoint: localhost:${port}
    models:
      bench: {engine: upstream, url: "http://127.0.0.1:${upstream}/v1"}
      own: {engine: builtin, policy: own, base: "${makePolicy(join(folder, 'base'), 0)}"}
# What is measured is that calls are stored; rollouts close afterwards.
connectors: {rollouts: {root_grace: 1h, idle_timeout: 1h}}
processors: {policy_calls: , credit_assignment: }
exporters: {clickhouse: }
extensions:
  clickhouse_storage: {url: "embedded:${store}"}
  health_check: {endpoint: localhost:${health}}
service:
  telemetry: {logs: {level: warn}, metrics: {level: none}}
  extensions: [clickhouse_storage, health_check]
  pipelines:
    traces: {receivers: [openai], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, credit_assignment], exporters: [clickhouse]}
`,
  )
  const child = await launchLeyden(config, health)
  for (;;) {
    const { ok } = await fetch(`http://127.0.0.1:${port}/health/ready`)
    if (ok) return { child, port }
    await sleep(50)
  }
}

/** 50,000 parameters. The tokenizer is that of the tests. */
function makePolicy(folder: string, seed: number): string {
  mkdirSync(folder, { recursive: true })
  for (const file of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'])
    cpSync(join('test/fixtures/policy/tokenizer', file), join(folder, file))
  const size = { hidden_size: 48, intermediate_size: 144, num_hidden_layers: 1, num_attention_heads: 4, max_position_embeddings: 512 }
  // No token ends an answer, so that all are of one length.
  initCheckpoint(folder, { vocab_size: 420, ...size }, seed)
  return folder
}

function pin(core: number, pids: readonly number[]): void {
  for (const pid of pids) spawnSync('taskset', ['-a', '-p', '-c', String(core), String(pid)], { stdio: 'ignore' })
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
