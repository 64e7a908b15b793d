// The peer: an OpenTelemetry Collector whose clickhouse exporter stores the same spans. It is tuned: fewer garbage collections, no
// compression on the way to ClickHouse, and a queue that makes senders wait where it would drop.

import { access, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { startClickHouse, type ClickHouse } from './clickhouse.ts'
import { end, freePorts, launch } from './processes.ts'

export interface Collector {
  readonly grpc: string
  readonly http: string
  readonly pid: number
  readonly clickhouse: ClickHouse
  stop(): Promise<void>
}

/** The Collector's binary in a folder where it was built; null where it is not there. */
export async function findCollector(folder: string): Promise<string | null> {
  const binary = join(folder, 'otelcol-peer')
  return access(binary).then(
    () => binary,
    () => null,
  )
}

export async function startCollector(binary: string): Promise<Collector> {
  const clickhouse = await startClickHouse()
  const [grpc, http, metrics] = (await freePorts(3)) as [number, number, number]
  const config = join(clickhouse.folder, 'collector.yaml')
  await writeFile(config, pipeline(clickhouse, { grpc, http, metrics }))
  const env = { ...process.env, GOGC: '400' }
  const child = await launch(binary, ['--config', config], `http://127.0.0.1:${metrics}/metrics`, { env })
  return {
    grpc: `127.0.0.1:${grpc}`,
    http: `http://127.0.0.1:${http}`,
    pid: child.pid!,
    clickhouse,
    async stop() {
      await end(child, 'SIGKILL')
      await clickhouse.stop()
    },
  }
}

function pipeline({ port, password }: ClickHouse, ports: { grpc: number; http: number; metrics: number }): string {
  return `
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:${ports.grpc}"}, http: {endpoint: "127.0.0.1:${ports.http}"}}}
processors:
  batch: {}
exporters:
  clickhouse:
    endpoint: http://127.0.0.1:${port}
    username: default
    password: ${JSON.stringify(password)}
    compress: none
    timeout: 60s
    sending_queue: {block_on_overflow: true, queue_size: 16, num_consumers: 2}
service:
  telemetry: {logs: {level: error}, metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: ${ports.metrics}}}}}]}}
  pipelines:
    traces: {receivers: [otlp], processors: [batch], exporters: [clickhouse]}
`
}
