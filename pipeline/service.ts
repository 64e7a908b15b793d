// The section `service`: the pipelines, and Leyden's own logs, metrics and traces, spelled as the Collector
// spells them. Only keys that are obeyed are listed here.

import type { Signal } from './component.ts'
import type { PipelinePlan, Plan } from './config.ts'
import { parseId } from './ids.ts'
import { checkNamedExtensions } from './named_extensions.ts'
import type { Note } from './problems.ts'
import { checkExtensions, checkPipelines, unitOf, type AllUnits, type Draft, type Reference, type Role } from './rules.ts'
import { duration, group, list, map, number, oneOf, readConfig, secret, text, type Config, type Problem } from './schema.ts'
import { emptyMap, placeOf, type Entry } from './tree.ts'
import { plain } from './typed.ts'

const logs = {
  level: oneOf(['debug', 'info', 'warn', 'error'], 'The least severe log line that is written.', { default: 'info' }),
  encoding: oneOf(['console', 'json'], 'How log lines look: for a person or for a machine.', { default: 'console' }),
  output_paths: list(text('`stderr`, `stdout` or a file to append to.'), 'Where log lines go.', { default: ['stderr'] }),
}

const prometheus = {
  host: text('Address that serves `/metrics`.', { default: '127.0.0.1' }),
  port: number('Port that serves `/metrics`.', { default: 8888, min: 0, max: 65_535, integer: true }),
}

const reader = group(
  {
    pull: group(
      { exporter: group({ prometheus: group(prometheus, 'Metrics in Prometheus format.') }, 'What is pulled.') },
      'Metrics that are read from outside.',
    ),
  },
  'One way to read the metrics.',
)

const metrics = {
  level: oneOf(['none', 'basic', 'normal', 'detailed'], 'How much is measured; `none` serves no metrics.', { default: 'normal' }),
  readers: list(reader, 'How metrics leave Leyden.', {
    default: [{ pull: { exporter: { prometheus: { host: '127.0.0.1', port: 8888 } } } }],
  }),
}

const otlp = {
  protocol: oneOf(['grpc'], 'Transport of the exporter.', { default: 'grpc' }),
  endpoint: text('Where spans go, e.g. http://localhost:4317.'),
  headers: map(secret('Value of the header.'), 'Headers (gRPC metadata) of each request.', { default: {} }),
}

const traceProcessor = group(
  { batch: group({ exporter: group({ otlp: group(otlp, 'An OTLP exporter.') }, 'Where batches go.') }, 'Sends spans in batches.') },
  'One way for spans to leave.',
)

const traces = {
  processors: list(traceProcessor, "Where spans about Leyden's own work go; none are made without one.", { default: [] }),
}

const attribute = text('Value of the attribute; null takes a default attribute away.', { default: null })

export const telemetryFields = {
  logs: group(logs, "Leyden's own logs."),
  metrics: group(metrics, "Leyden's own metrics."),
  traces: group(traces, "Leyden's own traces."),
  resource: map(attribute, "Attributes of Leyden's own telemetry, e.g. service.name.", { default: {} }),
}
export type Telemetry = Config<typeof telemetryFields>

const pipeline = {
  receivers: list(text('Id of a receiver or a connector.'), 'Where items come from.', { default: [] }),
  processors: list(text('Id of a processor.'), 'What changes them, in this order.', { default: [] }),
  exporters: list(text('Id of an exporter or a connector.'), 'Where they go.', { default: [] }),
}
type PipelineOptions = Config<typeof pipeline>

export const serviceFields = {
  extensions: list(text('Id of an extension.'), 'Extensions to run, started in this order.', { default: [] }),
  pipelines: map(group(pipeline, 'One pipeline.'), 'Pipelines by id: the signal, or `signal/name`.', { default: {} }),
  telemetry: group(telemetryFields, "Leyden's own logs, metrics and traces."),
  shutdown_timeout: duration('How long a stopping Leyden may take to drain what it holds.', { default: '30s' }),
}

const SIGNALS: readonly Signal[] = ['traces', 'logs', 'rollouts']

/** Reads the section and holds its pipelines to the rules. What it returns is sound where no problem was noted. */
export function readService(entry: Entry = { value: emptyMap }, units: AllUnits, problem: Note): Plan['service'] {
  const problems: Problem[] = []
  const options = readConfig(serviceFields, plain(entry.value, { fields: serviceFields }), ['service'], problems)
  for (const { path, message } of problems) problem(path, message, placeOf(entry, path.slice(1)))

  const seen = new Set<string>()
  const extensions = references(options.extensions, 'extensions')
  const drafts = Object.entries(options.pipelines ?? {}).flatMap(([written, pipeline]) => readPipeline(written, pipeline))
  if (options.pipelines && Object.keys(options.pipelines).length === 0) {
    problem(['service', 'pipelines'], 'service must have at least one pipeline')
  }
  checkExtensions(extensions, units, problem)
  checkPipelines(drafts, units, extensions, problem)
  checkNamedExtensions(drafts, units, extensions, problem)
  return { ...options, extensions: unique(extensions), pipelines: drafts.map(planOf) }

  function readPipeline(written: string, pipeline: PipelineOptions | undefined): Draft[] {
    const at = placeOf(entry, ['pipelines', written])
    const id = parseId(written)
    if (typeof id === 'string' || seen.has(id.id)) {
      problem(['service', 'pipelines'], typeof id === 'string' ? id : `duplicate name "${id.id}" after trimming spaces`, at)
      return []
    }
    seen.add(id.id)
    const path = ['service', 'pipelines', id.id]
    const signal = SIGNALS.find((s) => s === id.type)
    if (!signal) problem(path, `in "${id.id}" id: unknown pipeline signal: "${id.type}" (valid values: [${SIGNALS.join(' ')}])`, at)
    if (pipeline?.receivers?.length === 0) problem(path, 'must have at least one receiver', at)
    if (pipeline?.exporters?.length === 0) problem(path, 'must have at least one exporter', at)
    if (!signal) return []
    const names = (role: Role) => references(pipeline?.[role], 'pipelines', written, role)
    return [{ id: id.id, signal, at, receivers: names('receivers'), processors: names('processors'), exporters: names('exporters') }]
  }

  function references(names: readonly (string | undefined)[] | undefined, ...path: string[]): Reference[] {
    return (names ?? []).flatMap((written, i) => {
      const id = written === undefined ? undefined : parseId(written)
      const at = placeOf(entry, [...path, String(i)])
      if (typeof id === 'string') problem(['service', ...path], id, at)
      return typeof id === 'object' ? [{ id: id.id, at }] : []
    })
  }

  /** Without what is configured but does nothing. */
  function planOf({ id, signal, ...lists }: Draft): PipelinePlan {
    const names = (role: Role) => unique(lists[role]).filter((name) => unitOf(units, role, name))
    return { id, signal, receivers: names('receivers'), processors: names('processors'), exporters: names('exporters') }
  }
}

const unique = (references: readonly Reference[]) => [...new Set(references.map(({ id }) => id))]
