// Rows of the Collector's otel_traces and otel_logs tables. Every attribute value becomes text there:
// strings as they are, everything else as JSON has it.

import { toJson } from '../data/otlp_json.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { openRows, putArray, putMap, putString, putUInt64, putUInt8, written, type Rows } from './row_binary.ts'

const TRACES_COLUMNS = `Timestamp, TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName, ResourceAttributes,
  ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage,
  Events.Timestamp, Events.Name, Events.Attributes, Links.TraceId, Links.SpanId, Links.TraceState, Links.Attributes`

const LOGS_COLUMNS = `Timestamp, TraceId, SpanId, TraceFlags, SeverityText, SeverityNumber, ServiceName, Body,
  ResourceSchemaUrl, ResourceAttributes, ScopeSchemaUrl, ScopeName, ScopeVersion, ScopeAttributes, LogAttributes, EventName`

const KINDS = ['Unspecified', 'Internal', 'Server', 'Client', 'Producer', 'Consumer']
const STATUSES = ['Unset', 'Ok', 'Error']

export interface OtelRows {
  /** Names of their columns. */
  readonly columns: string
  /** One after the other, as RowBinary. */
  readonly bytes: Buffer
  /** Where each ends. */
  readonly ends: readonly number[]
}

export function otelRows(signal: SpanBatch['signal'], batches: readonly SpanBatch[]): OtelRows {
  const [columns, put] = signal === 'traces' ? [TRACES_COLUMNS, putSpans] : [LOGS_COLUMNS, putLogs]
  const rows = openRows()
  const ends: number[] = []
  for (const batch of batches) put(rows, ends, batch)
  return { columns, bytes: written(rows), ends }
}

function putSpans(rows: Rows, ends: number[], batch: SpanBatch): void {
  for (const { resource, scopeSpans = [] } of (toJson(batch) as Export).resourceSpans ?? []) {
    const resourceAttributes = textMap(resource?.attributes)
    for (const { scope, spans = [] } of scopeSpans) {
      for (const span of spans) {
        const { traceId, spanId, parentSpanId, traceState, name, kind = 0, attributes, status, events = [], links = [] } = span
        const start = BigInt(span.startTimeUnixNano ?? 0)
        const end = BigInt(span.endTimeUnixNano ?? 0)
        putUInt64(rows, start)
        for (const text of [traceId, spanId, parentSpanId, traceState, name, KINDS[kind]]) putString(rows, text ?? '')
        putString(rows, resourceAttributes['service.name'] ?? '')
        putMap(rows, resourceAttributes, putString)
        putString(rows, scope?.name ?? '')
        putString(rows, scope?.version ?? '')
        putMap(rows, textMap(attributes), putString)
        putUInt64(rows, end > start ? end - start : 0n)
        putString(rows, STATUSES[status?.code ?? 0] ?? '')
        putString(rows, status?.message ?? '')
        putArray(rows, events, (_, event) => putUInt64(rows, BigInt(event.timeUnixNano ?? 0)))
        putArray(rows, events, (_, event) => putString(rows, event.name ?? ''))
        putArray(rows, events, (_, event) => putMap(rows, textMap(event.attributes), putString))
        putArray(rows, links, (_, link) => putString(rows, link.traceId ?? ''))
        putArray(rows, links, (_, link) => putString(rows, link.spanId ?? ''))
        putArray(rows, links, (_, link) => putString(rows, link.traceState ?? ''))
        putArray(rows, links, (_, link) => putMap(rows, textMap(link.attributes), putString))
        ends.push(rows.length)
      }
    }
  }
}

function putLogs(rows: Rows, ends: number[], batch: SpanBatch): void {
  for (const { resource, schemaUrl: resourceSchema, scopeLogs = [] } of (toJson(batch) as Export).resourceLogs ?? []) {
    const resourceAttributes = textMap(resource?.attributes)
    for (const { scope, schemaUrl: scopeSchema, logRecords = [] } of scopeLogs) {
      for (const record of logRecords) {
        const { traceId, spanId, flags = 0, severityText, severityNumber = 0, body, attributes, eventName } = record
        const time = BigInt(record.timeUnixNano ?? 0) || BigInt(record.observedTimeUnixNano ?? 0)
        putUInt64(rows, time)
        putString(rows, traceId ?? '')
        putString(rows, spanId ?? '')
        putUInt8(rows, flags & 255)
        putString(rows, severityText ?? '')
        putUInt8(rows, severityNumber & 255)
        putString(rows, resourceAttributes['service.name'] ?? '')
        putString(rows, asText(body))
        putString(rows, resourceSchema ?? '')
        putMap(rows, resourceAttributes, putString)
        for (const text of [scopeSchema, scope?.name, scope?.version]) putString(rows, text ?? '')
        putMap(rows, textMap(scope?.attributes), putString)
        putMap(rows, textMap(attributes), putString)
        putString(rows, eventName ?? '')
        ends.push(rows.length)
      }
    }
  }
}

/** OTLP/JSON, as far as it is read here. */
interface Export {
  readonly resourceSpans?: readonly { resource?: Attributed; scopeSpans?: readonly { scope?: Scope; spans?: readonly SpanJson[] }[] }[]
  readonly resourceLogs?: readonly {
    resource?: Attributed
    schemaUrl?: string
    scopeLogs?: readonly { scope?: Scope; schemaUrl?: string; logRecords?: readonly LogJson[] }[]
  }[]
}

interface Attributed {
  readonly attributes?: readonly KeyValue[]
}

interface Scope extends Attributed {
  readonly name?: string
  readonly version?: string
}

interface SpanJson extends Attributed {
  readonly traceId?: string
  readonly spanId?: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name?: string
  readonly kind?: number
  readonly startTimeUnixNano?: string
  readonly endTimeUnixNano?: string
  readonly status?: { code?: number; message?: string }
  readonly events?: readonly (Attributed & { timeUnixNano?: string; name?: string })[]
  readonly links?: readonly (Attributed & { traceId?: string; spanId?: string; traceState?: string })[]
}

interface LogJson extends Attributed {
  readonly timeUnixNano?: string
  readonly observedTimeUnixNano?: string
  readonly traceId?: string
  readonly spanId?: string
  readonly flags?: number
  readonly severityText?: string
  readonly severityNumber?: number
  readonly body?: AnyValue
  readonly eventName?: string
}

interface KeyValue {
  readonly key?: string
  readonly value?: AnyValue
}

interface AnyValue {
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly intValue?: string
  readonly doubleValue?: number | string
  readonly bytesValue?: string
  readonly arrayValue?: { values?: readonly AnyValue[] }
  readonly kvlistValue?: { values?: readonly KeyValue[] }
}

const textMap = (attributes: readonly KeyValue[] = []): Record<string, string> => sorted(attributes, asText)

/** By their keys, as the Collector has them: to ClickHouse, maps of another order are not equal. */
function sorted<T>(attributes: readonly KeyValue[], read: (value: AnyValue) => T): Record<string, T> {
  const entries = attributes.map(({ key = '', value = {} }): [string, T] => [key, read(value)])
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
}

function asText(value: AnyValue = {}): string {
  if (value.arrayValue || value.kvlistValue) return asJson(value)
  return String(value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue ?? value.bytesValue ?? '')
}

/** Written by hand, since an integer may be too long for JSON.stringify. */
function asJson({ stringValue, boolValue, intValue, doubleValue, bytesValue, arrayValue, kvlistValue }: AnyValue): string {
  if (arrayValue) return `[${(arrayValue.values ?? []).map(asJson).join(',')}]`
  if (kvlistValue) {
    const members = Object.entries(sorted(kvlistValue.values ?? [], asJson))
    return `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`
  }
  return intValue ?? JSON.stringify(stringValue ?? boolValue ?? doubleValue ?? bytesValue ?? null)
}
