// A Leyden of its own for one measurement: a child process on free ports with an embedded ClickHouse in a new folder.

import type { ChildProcess } from 'node:child_process'
import { open, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'

import { startClickHouse, type ClickHouse } from './clickhouse.ts'
import { end, freePorts, launch } from './processes.ts'

/**
 * As `npm start` and the `leyden` command have it: a small young generation, which costs little and keeps the process small, and an old one
 * that is not collected before there is something to collect.
 */
const START_FLAGS = ['--max-semi-space-size=8', '--initial-old-space-size=64']
/** Has V8 write a line for each garbage collection. */
const TELL_COLLECTIONS = ['--trace-gc', '--trace-gc-nvp']

export interface Leyden {
  readonly grpc: string
  readonly http: string
  readonly pid: number
  readonly clickhouse: ClickHouse
  /** What it says of itself, in Prometheus' text. */
  metrics(): Promise<string>
  /** Rollouts that still get spans, as its metrics have it. */
  openRollouts(): Promise<number>
  /** Bytes of V8's heap that were allocated since it was started. */
  allocated(): Promise<number>
  /** kill -9, of Leyden alone, and a start with the same store and ports. */
  killAndRestart(): Promise<void>
  /** Ends it and removes what it stored. */
  stop(): Promise<void>
}

interface Options {
  /** As the otlp receiver has it. */
  readonly transport?: string
  /** How long after its root a rollout is closed: soon; or with '1h' not while this is measured, so that spans are stored and nothing more. */
  readonly rootGrace?: string
  /** The same for one whose root does not end. */
  readonly idleTimeout?: string
}

export async function startLeyden({ transport = 'auto', rootGrace = '1s', idleTimeout = '1h' }: Options = {}): Promise<Leyden> {
  const clickhouse = await startClickHouse()
  const [grpc, http, health, metrics] = (await freePorts(4)) as [number, number, number, number]
  const config = join(clickhouse.folder, 'pipeline.yaml')
  const otlp = `otlp: {protocols: {grpc: {endpoint: localhost:${grpc}, transport: ${transport}}, http: {endpoint: localhost:${http}}}}`
  await writeFile(
    config,
    pipeline({ store: clickhouse.store, health, metrics, receiver: otlp, signals: ['traces', 'logs'], rootGrace, idleTimeout }),
  )

  const collections = await open(join(clickhouse.folder, 'collections.log'), 'a')
  const start = () => launchLeyden(config, health, [...START_FLAGS, ...TELL_COLLECTIONS], collections.fd)
  let child = await start()
  const saying = async () => (await fetch(`http://localhost:${metrics}/metrics`)).text()
  return {
    grpc: `localhost:${grpc}`,
    http: `http://localhost:${http}`,
    get pid() {
      return child.pid!
    },
    clickhouse,
    metrics: saying,
    openRollouts: async () => Number(/^leyden_open_rollouts(?:\{.*\})? (\d+)/m.exec(await saying())?.[1]),
    async allocated() {
      const used = Number(/^otelcol_process_runtime_heap_alloc_bytes(?:\{.*\})? (\d+)/m.exec(await saying())?.[1])
      return used + freedBy(await readFile(join(clickhouse.folder, 'collections.log'), 'utf8'))
    },
    async killAndRestart() {
      await end(child, 'SIGKILL')
      await collections.truncate()
      child = await start()
    },
    async stop() {
      // Not SIGTERM: it would first close every rollout that is open.
      await end(child, 'SIGKILL')
      await collections.close()
      await clickhouse.stop()
    },
  }
}

/** By collections that V8 wrote a line about. */
const freedBy = (lines: string): number =>
  [...lines.matchAll(/total_size_before=(\d+) total_size_after=(\d+)/g)].reduce(
    (sum, [, before, after]) => sum + Number(before) - Number(after),
    0,
  )

/** @param configs each laid over those before it */
export async function launchLeyden(
  configs: string | readonly string[],
  health: number,
  flags = START_FLAGS,
  output?: number,
): Promise<ChildProcess> {
  const cli = createRequire(import.meta.url).resolve('#leyden')
  const given = [configs].flat().flatMap((config) => ['--config', config])
  return launch(process.execPath, [...flags, cli, 'run', ...given], `http://localhost:${health}/`, { output })
}

interface Pipeline {
  readonly store: string
  readonly health: number
  readonly metrics: number
  /** YAML on one line, its type first. */
  readonly receiver: string
  /** Which of them the receiver takes. */
  readonly signals: readonly ('traces' | 'logs')[]
  readonly rootGrace: string
  readonly idleTimeout?: string
}

/** From one receiver to transitions in an embedded ClickHouse. */
export const pipeline = ({ store, health, metrics, receiver, signals, rootGrace, idleTimeout = '1h' }: Pipeline): string => `
receivers: {${receiver}}
connectors: {rollouts: {root_grace: ${rootGrace}, idle_timeout: ${idleTimeout}}}
processors: {policy_calls: {policies: [{name: coder, models: ["policy/*"]}]}, air: {}, credit_assignment: {}}
exporters: {clickhouse: {}}
extensions:
  clickhouse_storage: {url: "embedded:${store}"}
  health_check: {endpoint: localhost:${health}}
service:
  telemetry: {logs: {level: warn}, metrics: {readers: [{pull: {exporter: {prometheus: {host: localhost, port: ${metrics}}}}}]}}
  extensions: [clickhouse_storage, health_check]
  pipelines:
${signals.map((signal) => `    ${signal}: {receivers: [${receiver.split(':')[0]}], exporters: [rollouts]}`).join('\n')}
    rollouts: {receivers: [rollouts], processors: [policy_calls, air, credit_assignment], exporters: [clickhouse]}
`
