// The Leyden that is measured, in two forms: as docker-compose.yaml has it, the endpoint a process of its own (config/endpoint.yaml) that sends
// its calls to a pipeline (config/pipeline.yaml) by OTLP; and everything in one process. Each has a model `bench`, an upstream, and a model
// `own`, its own decoder.

import type { ChildProcess } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouse } from './clickhouse.ts'
import { makePolicy, POLICIES } from './endpoint_decoder.ts'
import { launchLeyden } from './leyden.ts'
import { freePorts } from './processes.ts'

export interface MeasuredLeyden {
  readonly port: number
  readonly child: ChildProcess
}

/** As docker-compose.yaml starts it. */
export const ENDPOINT_FLAGS = [
  ...['--min-semi-space-size=32', '--max-semi-space-size=32', '--initial-old-space-size=64'],
  ...['--no-parallel-scavenge', '--v8-pool-size=1', `--import=${new URL('../cli/answer_first.js', import.meta.url).href}`],
]
/** What is measured is that calls are stored; rollouts close afterwards. */
const PIPELINE = 'connectors: {rollouts: {root_grace: 1h, idle_timeout: 1h}}'

/** Where an endpoint of its own sends calls: on the core of the client, not on its. */
export async function startPipeline({ folder, store }: ClickHouse): Promise<{ child: ChildProcess; http: number }> {
  const [grpc, http, scores, health] = (await freePorts(4)) as [number, number, number, number]
  const overlay = join(folder, 'pipeline.yaml')
  await writeFile(
    overlay,
    `
receivers:
  otlp: {protocols: {grpc: {endpoint: localhost:${grpc}}, http: {endpoint: localhost:${http}}}}
  scores: {endpoint: localhost:${scores}}
${PIPELINE}
${service(store, health)}
`,
  )
  return { child: await launchLeyden(['config/pipeline.yaml', overlay], health), http }
}

export async function startEndpoint(
  { folder, store }: ClickHouse,
  upstream: number,
  pipeline: number,
  decoder = false,
): Promise<MeasuredLeyden> {
  const [port, health] = (await freePorts(2)) as [number, number]
  const overlay = join(folder, `endpoint-${port}.yaml`)
  await writeFile(
    overlay,
    `
receivers:
${receiver(port, upstream, decoder ? ownModels(folder) : [])}
exporters: {otlp_http: {endpoint: "http://localhost:${pipeline}"}}
${service(store, health)}
`,
  )
  return ready(await launchLeyden(['config/endpoint.yaml', overlay], health, ENDPOINT_FLAGS), port)
}

export async function startWhole({ folder, store }: ClickHouse, upstream: number): Promise<MeasuredLeyden> {
  const [port, grpc, http, scores, health] = (await freePorts(5)) as [number, number, number, number, number]
  const overlay = join(folder, 'whole.yaml')
  await writeFile(
    overlay,
    `
receivers:
  otlp: {protocols: {grpc: {endpoint: localhost:${grpc}}, http: {endpoint: localhost:${http}}}}
  scores: {endpoint: localhost:${scores}}
${receiver(port, upstream, [])}
${PIPELINE}
${service(store, health)}
  pipelines: {traces: {receivers: [otlp, openai]}}
`,
  )
  return ready(await launchLeyden(['config/pipeline.yaml', overlay], health), port)
}

const receiver = (port: number, upstream: number, models: readonly string[]) => `
  openai:
    endpoint: localhost:${port}
    models:
      default: {engine: upstream, policy: null, url: "http://127.0.0.1:${upstream}/v1"}
${models.join('\n')}`

function ownModels(folder: string): string[] {
  return (Object.keys(POLICIES) as (keyof typeof POLICIES)[]).map((policy) => {
    const base = makePolicy(join(folder, policy), policy, 0)
    return `      ${policy}: {engine: builtin, policy: ${policy}, base: "${base}"}`
  })
}

const service = (store: string, health: number) => `
extensions:
  clickhouse_storage: {url: "embedded:${store}"}
  health_check: {endpoint: localhost:${health}}
service:
  telemetry: {logs: {level: warn}, metrics: {level: none}}`

async function ready(child: ChildProcess, port: number): Promise<MeasuredLeyden> {
  for (;;) {
    const { ok } = await fetch(`http://127.0.0.1:${port}/health/ready`)
    if (ok) return { child, port }
    await sleep(50)
  }
}
