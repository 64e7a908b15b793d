// A whole Leyden in this process for tests: real receivers on free ports, an embedded ClickHouse of
// its own, and the store behind them.

import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { registry } from '../cli/registry.ts'
import { loadConfig } from '../pipeline/config.ts'
import { startGraph } from '../pipeline/graph.ts'
import { createTelemetry } from '../pipeline/telemetry.ts'
import { openStorage } from '../storage/open.ts'
import { stopEmbedded } from './storage.ts'

export interface Leyden {
  readonly url: string
  readonly grpc: string
  readonly folder: string
  readonly warnings: readonly string[]
  post(signal: 'traces' | 'logs', document: object): Promise<Response>
  query<T = Record<string, unknown>>(sql: string): Promise<T[]>
  /** Asks until the answer has so many rows, or fails after `ms`. */
  rows<T = Record<string, unknown>>(count: number, sql: string, ms?: number): Promise<T[]>
  /** Stops the pipeline; the store stays, for a second start with `start(…, folder)`. */
  stop(): Promise<void>
  /** Stops everything and removes the folder. */
  remove(): Promise<void>
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** `more` is merged over the standard configuration, as a second `--config` is. */
export async function startLeyden(more = '{}', folder?: string): Promise<Leyden> {
  const data = folder ?? (await mkdtemp(join(tmpdir(), 'leyden-')))
  const [http, grpc] = [await freePort(), await freePort()]
  const standard = `
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:${grpc}"}, http: {endpoint: "127.0.0.1:${http}"}}}
connectors:
  rollouts: {root_grace: 300ms}
processors: {policy_calls: , air: , credit_assignment: }
exporters: {clickhouse: }
extensions:
  clickhouse_storage: {url: "embedded:${data}"}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  extensions: [clickhouse_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    logs: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, air, credit_assignment], exporters: [clickhouse]}
`
  const loaded = await loadConfig([`yaml:${standard}`, `yaml:${more}`], { registry, env: {}, cwd: data })
  if (!loaded.plan) throw new Error(loaded.problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
  const telemetry = await createTelemetry(loaded.plan.service.telemetry)
  const running = await startGraph(loaded.plan, telemetry)
  const storage = await openStorage({ url: `embedded:${data}` })

  async function query<T>(sql: string): Promise<T[]> {
    const answer = await storage.client.query({ query: sql, format: 'JSONEachRow' })
    return answer.json<T>()
  }

  async function stop(): Promise<void> {
    await running.shutdown()
    await telemetry.shutdown()
    await storage.close()
  }

  return {
    url: `http://127.0.0.1:${http}`,
    grpc: `127.0.0.1:${grpc}`,
    folder: data,
    warnings: loaded.warnings,
    post: (signal, document) =>
      fetch(`http://127.0.0.1:${http}/v1/${signal}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(document),
      }),
    query,
    async rows<T>(count: number, sql: string, ms = 8_000) {
      const until = Date.now() + ms
      for (;;) {
        const found = await query<T>(sql)
        if (found.length === count || Date.now() > until) return found
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    },
    stop,
    async remove() {
      await stop()
      await stopEmbedded(data)
      await rm(data, { recursive: true, force: true })
    },
  }
}
