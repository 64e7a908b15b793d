// A Leyden of its own for one measurement: a child process on free ports with an embedded ClickHouse in a new folder, and what the
// operating system says of both processes.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { main } from '../cli/leyden.ts'
import { readAddress } from '../storage/embedded/address.ts'

const START_MS = 30_000
/** As `npm start` and the `leyden` command have it: a small young generation, which costs little and keeps the process small. */
const START_FLAGS = ['--max-semi-space-size=2']
/** Kernel clock ticks per second; Linux fixes it at 100 for user space. */
const TICKS = 100

export interface Leyden {
  readonly grpc: string
  readonly http: string
  readonly pid: number
  readonly clickhousePid: number
  /** The rows of a query, each a list of columns. */
  query(sql: string): Promise<string[][]>
  /** kill -9, of Leyden alone, and a start with the same store and ports. */
  killAndRestart(): Promise<void>
  /** Ends it and removes what it stored. */
  stop(): Promise<void>
}

/** `transport` as the otlp receiver has it. */
export async function startLeyden(transport = 'auto'): Promise<Leyden> {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-bench-'))
  const store = join(folder, 'store')
  const [grpc, http, health, metrics] = await freePorts(4)
  const config = join(folder, 'pipeline.yaml')
  await writeFile(config, pipeline(store, { grpc: grpc!, http: http!, health: health!, metrics: metrics! }, transport))

  let child = await launch(config, health!)
  const clickhousePid = (await readAddress(store))!.pid

  return {
    grpc: `localhost:${grpc}`,
    http: `http://localhost:${http}`,
    get pid() {
      return child.pid!
    },
    clickhousePid,
    async query(sql) {
      let text = ''
      const io = { stdout: (s: string) => (text += s), stderr: (s: string) => process.stderr.write(s), env: process.env, cwd: folder }
      if (await main(['sql', '--config', config, '--format', 'TabSeparated', sql], io)) throw new Error(`query failed: ${sql}`)
      return text
        .split('\n')
        .filter(Boolean)
        .map((line) => line.split('\t'))
    },
    async killAndRestart() {
      await end(child, 'SIGKILL')
      child = await launch(config, health!)
    },
    async stop() {
      await end(child, 'SIGTERM')
      process.kill(clickhousePid)
      while (isAlive(clickhousePid)) await sleep(50)
      await rm(folder, { recursive: true })
    },
  }
}

export async function launch(config: string, health: number): Promise<ChildProcess> {
  const cli = createRequire(import.meta.url).resolve('#leyden')
  const child = spawn(process.execPath, [...START_FLAGS, cli, 'run', '--config', config], { stdio: ['ignore', 'ignore', 'inherit'] })
  for (const deadline = Date.now() + START_MS; !(await answers(`http://localhost:${health}/`)); await sleep(50)) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error('leyden did not start: see above')
  }
  return child
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

/** Seconds of CPU that a process has used; NaN where the system does not say (it has no /proc). */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS
}

/** The most memory that a process has had resident, in MB. */
export const peakMegabytes = (pid: number): Promise<number> => memory(pid, 'VmHWM')

/** What it has resident now. */
export const megabytes = (pid: number): Promise<number> => memory(pid, 'VmRSS')

async function memory(pid: number, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024
}

function pipeline(store: string, ports: { grpc: number; http: number; health: number; metrics: number }, transport: string): string {
  return `
receivers:
  otlp: {protocols: {grpc: {endpoint: localhost:${ports.grpc}, transport: ${transport}}, http: {endpoint: localhost:${ports.http}}}}
connectors:
  rollouts: {root_grace: 1s}
processors:
  policy_calls: {policies: [{name: coder, models: ["policy/*"]}]}
  air: {}
  credit_assignment: {}
exporters:
  clickhouse: {}
extensions:
  clickhouse_storage: {url: "embedded:${store}"}
  health_check: {endpoint: localhost:${ports.health}}
service:
  telemetry: {logs: {level: warn}, metrics: {readers: [{pull: {exporter: {prometheus: {host: localhost, port: ${ports.metrics}}}}}]}}
  extensions: [clickhouse_storage, health_check]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, air, credit_assignment], exporters: [clickhouse]}
`
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, 'localhost'))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    (response) => response.ok,
    () => false,
  )
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
