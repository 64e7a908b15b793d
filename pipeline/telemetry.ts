// Leyden's own logs, metrics and traces, and what each component sees of them: its Context.

import { randomUUID } from 'node:crypto'

import { diag, DiagLogLevel } from '@opentelemetry/api'
import { resourceFromAttributes } from '@opentelemetry/resources'

import type { Context, Extension, Kind, Log } from './component.ts'
import type { PipelinePlan, Telemetry as TelemetryConfig } from './config.ts'
import { createLogs } from './logs.ts'
import { startMetrics, type Metrics } from './metrics.ts'
import { createTaps, type Taps } from './tap.ts'
import { startTraces } from './traces.ts'

export interface Telemetry {
  /** For lines of the engine itself. */
  readonly log: Log
  readonly metrics: Metrics
  /** What leaves the components, for `leyden tap`. */
  readonly taps: Taps
  /** The extensions that run, by id: the graph puts them here, components ask their context for them. */
  readonly extensions: Map<string, Extension>
  /** `pipeline` for processors, which have an instance in each. */
  contextFor(kind: Kind, id: string, pipeline?: Pick<PipelinePlan, 'id' | 'signal'>): Context
  /** Forgets the gauges, the health and the extensions of a graph that has stopped. */
  forget(): void
  shutdown(): Promise<void>
}

/** `version` is Leyden's. Rejects when an address for metrics cannot be listened on. */
export async function createTelemetry(config: TelemetryConfig, version = ''): Promise<Telemetry> {
  const attributes = resourceOf(config.resource, version)
  const resource = resourceFromAttributes(attributes)
  const logs = createLogs(config.logs, attributes)
  const stopTraces = await startTraces(config.traces, resource)
  const taps = createTaps((items, component) => {
    metrics.counter('leyden_tap_dropped_items', { component }).total += items
  })
  const metrics = await startMetrics(config.metrics, resource, taps.handle).catch(async (error: unknown) => {
    await stopTraces()
    throw error
  })
  const log = logs.logFor({})
  const extensions = new Map<string, Extension>()
  const health = new Map<string, { id: string; kind: Kind; problem: string }>()

  // What the SDK has to say of itself, e.g. that its spans find no taker.
  const sdk =
    (write: Log['warn']) =>
    (message: string, ...more: unknown[]) =>
      write([message, ...more].map(String).join(' '))
  const { debug, info, warn, error } = log
  const sdkLog = { verbose: sdk(debug), debug: sdk(debug), info: sdk(info), warn: sdk(warn), error: sdk(error) }
  diag.setLogger(sdkLog, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })

  function contextFor(kind: Kind, id: string, pipeline?: Pick<PipelinePlan, 'id' | 'signal'>): Context {
    const place = `${kind} ${id} ${pipeline?.id ?? ''}`
    const labels = { [kind]: id, ...(pipeline && { pipeline: pipeline.id }) }
    const ownLog = logs.logFor({
      'otelcol.component.id': id,
      'otelcol.component.kind': kind,
      ...(pipeline && { 'otelcol.pipeline.id': pipeline.id, 'otelcol.signal': pipeline.signal }),
    })
    return {
      id,
      kind,
      ...(pipeline && { signal: pipeline.signal }),
      log: ownLog,
      count: counting(labels),
      counter(name, more = {}) {
        const own = metrics.counter(name, { ...labels, ...more })
        return (n) => void (own.total += n)
      },
      gauge: (name, read, more = {}) => metrics.gauge(name, read, { ...labels, ...more }),
      extension<T>(wanted: string): T {
        const found = extensions.get(wanted)
        if (!found) throw new Error(`needs the extension "${wanted}": configure it, and list it in service::extensions`)
        return found.api as T
      },
      health(problem) {
        const before = health.get(place)?.problem ?? null
        if (problem === null) health.delete(place)
        else health.set(place, { id, kind, problem })
        if (before === null && problem !== null) ownLog.warn('Not healthy', { problem })
        else if (before !== null && problem === null) ownLog.info('Healthy again')
      },
      problems: () => [...health.values()],
    }
  }

  /** Counting goes on all the time: a counter is looked up by one text. */
  function counting(labels: Record<string, string>): Context['count'] {
    const known = new Map<string, { total: number }>()
    return (name, n = 1, more) => {
      let key = name
      for (const label in more) key += `\u0000${label}\u0000${more[label]!}`
      let counter = known.get(key)
      if (!counter) known.set(key, (counter = metrics.counter(name, { ...labels, ...more })))
      counter.total += n
    }
  }

  function forget(): void {
    metrics.forgetGauges()
    taps.forget()
    health.clear()
    extensions.clear()
  }

  async function shutdown(): Promise<void> {
    diag.disable()
    await stopTraces().catch((cause: unknown) => log.warn('Spans about Leyden itself were lost.', { error: cause }))
    taps.close()
    await metrics.shutdown()
    await logs.close()
  }

  return { log, metrics, taps, extensions, contextFor, forget, shutdown }
}

/** Null in the configuration takes a default attribute away. */
function resourceOf(configured: TelemetryConfig['resource'], version: string): Record<string, string> {
  const all = { 'service.name': 'leyden', 'service.version': version, 'service.instance.id': randomUUID(), ...configured }
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null))
}
