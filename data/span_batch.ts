// The spans (or log records) of one OTLP request, as offsets into its bytes. Nothing is decoded
// until somebody asks: receiving and storing touch only this.

import { word } from './bytes.ts'
import { tracesOf, type Traces } from './known_traces.ts'
import type { Attributes } from './span.ts'

/**
 * `columns` holds STRIDE integers per item; `slots` one integer per item and key of `keys`: the
 * offset in `body` of the attribute's KeyValue (at its length prefix), 0 where it is absent. What
 * a batch holds was checked whole: reading any of it cannot fail.
 */
export interface SpanBatch {
  readonly signal: 'traces' | 'logs'
  /** The request: ExportTraceServiceRequest or ExportLogsServiceRequest, as protobuf. */
  readonly body: Buffer
  readonly count: number
  readonly columns: Int32Array
  readonly slots: Int32Array
  readonly keys: readonly string[]
  readonly resources: readonly Envelope[]
  readonly scopes: readonly Envelope[]
}

/** A Resource or an InstrumentationScope: its own OTLP bytes, which may be a part of `body`, and what they say, which never is. */
export interface Envelope {
  readonly bytes: Buffer
  readonly name: string
  readonly version: string
  /** Of the enclosing ResourceSpans or ScopeSpans; '' where it says none. */
  readonly schema_url: string
  readonly attributes: Attributes
}

/** One item of a batch, wherever it is kept. */
export interface RawItem {
  readonly signal: SpanBatch['signal']
  readonly payload: Buffer
  readonly resource: Envelope
  readonly scope: Envelope
}

/** The same in memory of its own: what a receiver passes on may be read until it is taken or refused, and not a moment longer. */
export function detached(batch: SpanBatch): SpanBatch {
  const own = (envelope: Envelope) => ({ ...envelope, bytes: Buffer.from(envelope.bytes) })
  return { ...batch, body: Buffer.from(batch.body), resources: batch.resources.map(own), scopes: batch.scopes.map(own) }
}

/** What each of an item's integers means. Offsets point into `body`; 0 is "absent" for all but counts. */
export const COLUMN = {
  /** First byte of the Span or LogRecord message, and the byte after its last. */
  start: 0,
  end: 1,
  /** 16 raw bytes; 0 for a log record outside a trace. */
  trace_id: 2,
  /** 8 raw bytes. */
  span_id: 3,
  parent_span_id: 4,
  /** Span name, or a log record's event_name: offset and length. */
  name: 5,
  name_length: 6,
  kind: 7,
  status: 8,
  /** Offsets of fixed64 nanoseconds. For a log record: time (else observed time), and 0. */
  start_time: 9,
  end_time: 10,
  /** Index into `resources` and `scopes`. */
  resource: 11,
  scope: 12,
  /** A span's flags; bits 8 and 9 say whether its parent is remote. */
  flags: 13,
  /** Where the first of a span's links stands, at its length prefix. */
  link: 14,
} as const

export const STRIDE = 15

/** SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE and SPAN_FLAGS_CONTEXT_IS_REMOTE. */
export const REMOTE_PARENT = 0x300

const column = ({ columns }: SpanBatch, i: number, place: number) => columns[i * STRIDE + place]!

/** 32 lower-case hex digits; '' for a log record outside a trace. */
export const traceId = (batch: SpanBatch, i: number): string => hex(batch.body, column(batch, i, COLUMN.trace_id), 16)
/** 16 lower-case hex digits. */
export const spanId = (batch: SpanBatch, i: number): string => hex(batch.body, column(batch, i, COLUMN.span_id), 8)
/** '' for a root. */
export const parentSpanId = (batch: SpanBatch, i: number): string => hex(batch.body, column(batch, i, COLUMN.parent_span_id), 8)

/** A span that began the work of this process: it has no parent, or one in another process. */
export const isRoot = (batch: SpanBatch, i: number): boolean =>
  column(batch, i, COLUMN.parent_span_id) === 0 || (column(batch, i, COLUMN.flags) & REMOTE_PARENT) === REMOTE_PARENT

/** The span's name, or the log record's event name. */
export function itemName(batch: SpanBatch, i: number): string {
  const at = column(batch, i, COLUMN.name)
  return batch.body.toString('utf8', at, at + nameLength(batch, i))
}
export const nameLength = (batch: SpanBatch, i: number): number => column(batch, i, COLUMN.name_length)
/** Whether it is this text, which is ASCII: every item is asked, and no string is made of its name. */
export const nameIs = (batch: SpanBatch, i: number, text: string): boolean =>
  nameLength(batch, i) === text.length && nameBegins(batch, i, text)
/** Whether it begins so. */
export function nameBegins(batch: SpanBatch, i: number, text: string): boolean {
  if (nameLength(batch, i) < text.length) return false
  const at = column(batch, i, COLUMN.name)
  for (let n = 0; n < text.length; n++) if (batch.body[at + n] !== text.charCodeAt(n)) return false
  return true
}

/** Nanoseconds since the Unix epoch; 0n where the exporter left it out. */
export const startTime = (batch: SpanBatch, i: number): bigint => nanoseconds(batch.body, column(batch, i, COLUMN.start_time))
export const endTime = (batch: SpanBatch, i: number): bigint => nanoseconds(batch.body, column(batch, i, COLUMN.end_time))

/** The same as doubles, which are some hundred nanoseconds off. */
export function putAboutTimes({ body, columns }: SpanBatch, i: number, times: Float64Array, start: number, end: number): void {
  putAbout(times, start, body, columns[i * STRIDE + COLUMN.start_time]!)
  putAbout(times, end, body, columns[i * STRIDE + COLUMN.end_time]!)
}

export function hasEnded({ body, columns }: SpanBatch, i: number): boolean {
  const at = columns[i * STRIDE + COLUMN.end_time]!
  return at !== 0 && (word(body, at) | word(body, at + 4)) !== 0
}

/** Where the attribute of this key stands, as in `slots`; 0 as well where the key is none of `keys`. */
export function slotOf({ slots, keys }: SpanBatch, i: number, key: string): number {
  const place = keys.indexOf(key)
  return place < 0 ? 0 : slots[i * keys.length + place]!
}

/** The item's own bytes: a Span or LogRecord message. */
export const payload = (batch: SpanBatch, i: number): Buffer =>
  batch.body.subarray(column(batch, i, COLUMN.start), column(batch, i, COLUMN.end))
export const payloadSize = (batch: SpanBatch, i: number): number => column(batch, i, COLUMN.end) - column(batch, i, COLUMN.start)
export const resource = (batch: SpanBatch, i: number): Envelope => batch.resources[column(batch, i, COLUMN.resource)]!
export const scope = (batch: SpanBatch, i: number): Envelope => batch.scopes[column(batch, i, COLUMN.scope)]!

export const rawItem = (batch: SpanBatch, i: number): RawItem => ({
  signal: batch.signal,
  payload: payload(batch, i),
  resource: resource(batch, i),
  scope: scope(batch, i),
})

/** The traces of its items. */
export const tracesIn = (batch: SpanBatch): Traces => tracesOf(batch.body, batch.columns, COLUMN.trace_id, STRIDE)

const hex = (body: Buffer, at: number, size: number) => (at === 0 ? '' : body.toString('hex', at, at + size))
/** Into an array: a double that is returned is an object wherever V8 does not inline this. */
function putAbout(times: Float64Array, place: number, body: Buffer, at: number): void {
  times[place] = at === 0 ? 0 : (word(body, at + 4) >>> 0) * 2 ** 32 + (word(body, at) >>> 0)
}
const nanoseconds = (body: Buffer, at: number) => (at === 0 ? 0n : body.readBigUInt64LE(at))
