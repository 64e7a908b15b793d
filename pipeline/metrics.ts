// Counters and gauges, served in Prometheus' format under the Collector's names.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

import type { Attributes, ObservableCounter, ObservableGauge } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import type { Resource } from '@opentelemetry/resources'
import { MeterProvider } from '@opentelemetry/sdk-metrics'

import type { Telemetry } from './config.ts'
import { close, listen, type Address } from './listen.ts'

export interface Metrics {
  /** Addresses that serve /metrics. */
  readonly addresses: readonly Address[]
  /**
   * What is added to its total is counted. Names that begin with `leyden_` stay as they are, others get the prefix `otelcol_`; counters
   * end in `_total`.
   */
  counter(name: string, labels: Attributes): { total: number }
  /** A second gauge of the same name and labels takes the place of the first. */
  gauge(name: string, read: () => number, labels: Attributes): void
  /** Gauges of components that have stopped show 0 from now on: the SDK would repeat what it read last. */
  forgetGauges(): void
  shutdown(): Promise<void>
}

const READERS = 'service::telemetry::metrics::readers'

/** Answers a request, or says that it is none of its own. */
export type Handle = (request: IncomingMessage, response: ServerResponse) => boolean

/** Rejects when an address cannot be listened on. `other` answers what is not for /metrics. */
export async function startMetrics(
  { level, readers }: Telemetry['metrics'],
  resource: Resource,
  other: Handle = () => false,
): Promise<Metrics> {
  const served = level === 'none' ? [] : readers.map((reader) => reader.pull.exporter.prometheus)
  const exporters = served.map(() => new PrometheusExporter({ preventServerStart: true, withoutScopeInfo: true }))
  const provider = new MeterProvider({ resource, readers: exporters })
  const meter = provider.getMeter('leyden')
  const counters = new Map<string, ObservableCounter>()
  const totals = new Map<string, { total: number }>()
  const gauges = new Map<string, ObservableGauge>()
  const readings = new Map<string, () => number>()

  /** The SDK's own counters sort and hash their labels at each addition; these are read when they are scraped. */
  function counter(name: string, labels: Attributes): { total: number } {
    const key = JSON.stringify([name, labels])
    let own = totals.get(key)
    if (!own) totals.set(key, (own = watched(name, labels)))
    return own
  }

  function watched(name: string, labels: Attributes): { total: number } {
    const own = { total: 0 }
    let instrument = counters.get(name)
    if (!instrument) counters.set(name, (instrument = meter.createObservableCounter(prefixed(name), describe(name))))
    instrument.addCallback((result) => result.observe(own.total, labels))
    return own
  }

  function observe(name: string, read: () => number, labels: Attributes): void {
    let gauge = gauges.get(name)
    if (!gauge) gauges.set(name, (gauge = meter.createObservableGauge(prefixed(name), describe(name))))
    gauge.addCallback((result) => result.observe(read(), labels))
  }

  function gauge(name: string, read: () => number, labels: Attributes): void {
    const key = JSON.stringify([name, labels])
    if (!readings.has(key)) observe(name, () => readings.get(key)!(), labels)
    readings.set(key, read)
  }

  function forgetGauges(): void {
    for (const key of readings.keys()) readings.set(key, () => 0)
  }

  for (const [name, read] of Object.entries(PROCESS)) observe(name, read, {})

  const servers = exporters.map((exporter) =>
    createServer((request, response) => {
      if (request.url?.split('?')[0] === '/metrics') exporter.getMetricsRequestHandler(request, response)
      else if (!other(request, response)) response.writeHead(404).end()
    }),
  )
  async function shutdown(): Promise<void> {
    await Promise.all(servers.map(close))
    await provider.shutdown()
  }

  try {
    const addresses: Address[] = []
    for (const [i, { host, port }] of served.entries()) {
      const bound = await listen(servers[i]!, { host, port }, `${READERS}::${i}::pull::exporter::prometheus::port`)
      addresses.push({ host, port: bound.port })
    }
    return { addresses, counter, gauge, forgetGauges, shutdown }
  } catch (error) {
    await shutdown()
    throw error
  }
}

const prefixed = (name: string) => (name.startsWith('leyden_') ? name : `otelcol_${name}`)
const describe = (name: string) => ({ description: `${name.replaceAll('_', ' ')}.` })

/** The Collector's process metrics, as far as Node has the like. */
const PROCESS: Readonly<Record<string, () => number>> = {
  process_uptime: () => process.uptime(),
  process_cpu_seconds: () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  },
  process_memory_rss: () => process.memoryUsage.rss(),
  process_runtime_heap_alloc_bytes: () => process.memoryUsage().heapUsed,
  process_runtime_total_sys_memory_bytes: () => process.memoryUsage().heapTotal + process.memoryUsage().external,
}
