// The options of `service`, apart from its pipelines: Leyden's own logs, metrics and traces, spelled as the Collector
// spells them. Only keys that are obeyed are listed here.

import { duration, group, list, map, number, oneOf, text } from './schema.ts'
import type { Config } from './schema.ts'

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
  headers: map(text('Value of the header.'), 'Headers (gRPC metadata) of each request.', { default: {} }),
}

const traceProcessor = group(
  { batch: group({ exporter: group({ otlp: group(otlp, 'An OTLP exporter.') }, 'Where batches go.') }, 'Sends spans in batches.') },
  'One way for spans to leave.',
)

const traces = {
  processors: list(traceProcessor, "Where spans about Leyden's own work go; none are made without one.", { default: [] }),
}

export const telemetryFields = {
  logs: group(logs, "Leyden's own logs."),
  metrics: group(metrics, "Leyden's own metrics."),
  traces: group(traces, "Leyden's own traces."),
  resource: map(
    text('Value of the attribute; null takes a default attribute away.', { default: null }),
    "Attributes of Leyden's own telemetry, e.g. service.name.",
    {
      default: {},
    },
  ),
}
export type Telemetry = Config<typeof telemetryFields>

export const shutdownTimeout = duration('How long a stopping Leyden may take to drain what it holds.', { default: '30s' })
