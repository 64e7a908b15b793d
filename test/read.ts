// Spans and log records read as they would be in a pipeline: OTLP/JSON in, calls, tools and rewards out.

import { readDocument } from '../data/document.ts'
import { readItems, type ReadResult } from '../data/reading.ts'
import type { Item } from '../data/span.ts'
import { dialects } from '../dialects/index.ts'
import { spanIdOf, traceIdOf, traces, type SpanSpec } from './spans.ts'

export const itemsOf = (...documents: object[]): Item[] => documents.flatMap((document) => readDocument(JSON.stringify(document)).items)

/** As the rollouts connector assembles where nothing is said. */
export const assembling = { dialects, group_by: 'trace', join_keys: [], max_spans: 100_000, max_bytes: 256 << 20 } as const

export const read = (...documents: object[]): ReadResult => readItems(itemsOf(...documents), dialects)

/** One run in one trace, below a root of one second. */
export const run = (...spans: SpanSpec[]): object =>
  traces('t', [{ id: 'root', name: 'agent', at: 0, for: 1_000 }, ...spans.map((span) => ({ parent: 'root', ...span }))])

interface RecordSpec {
  event: string
  /** Milliseconds after the run's start. */
  at?: number
  /** Id of the span it was written in. */
  span?: string
  body?: unknown
  attributes?: Record<string, unknown>
}

const START = 1_764_000_000_000

/** An ExportLogsServiceRequest as OTLP/JSON. */
export const logs = (...records: RecordSpec[]): object => ({
  resourceLogs: [
    {
      scopeLogs: [
        {
          scope: { name: 'test' },
          logRecords: records.map(({ event, at = 0, span, body, attributes = {} }) => ({
            timeUnixNano: String(BigInt(START + at) * 1_000_000n),
            eventName: event,
            ...(span ? { traceId: traceIdOf('t'), spanId: spanIdOf(span) } : {}),
            ...(body === undefined ? {} : { body: anyValue(body) }),
            attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: anyValue(value) })),
          })),
        },
      ],
    },
  ],
})

/** Any JSON value as an OTLP AnyValue; null is the empty one. */
export function anyValue(value: unknown): object {
  if (value === null) return {}
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number')
    return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: Number.isNaN(value) ? 'NaN' : value }
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } }
  return { kvlistValue: { values: Object.entries(value as object).map(([key, v]) => ({ key, value: anyValue(v) })) } }
}
