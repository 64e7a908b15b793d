// The spans (or log records) of one OTLP request, as offsets into its bytes. Nothing is decoded
// until somebody asks: receiving and storing touch only this.

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

const column = ({ columns }: SpanBatch, i: number, name: keyof typeof COLUMN) => columns[i * STRIDE + COLUMN[name]]!

/** 32 lower-case hex digits; '' for a log record outside a trace. */
export const traceId = (batch: SpanBatch, i: number): string => hex(batch.body, column(batch, i, 'trace_id'), 16)
/** 16 lower-case hex digits. */
export const spanId = (batch: SpanBatch, i: number): string => hex(batch.body, column(batch, i, 'span_id'), 8)
/** '' for a root. */
export const parentSpanId = (batch: SpanBatch, i: number): string => hex(batch.body, column(batch, i, 'parent_span_id'), 8)

/** A span that began the work of this process: it has no parent, or one in another process. */
export const isRoot = (batch: SpanBatch, i: number): boolean =>
  column(batch, i, 'parent_span_id') === 0 || (column(batch, i, 'flags') & REMOTE_PARENT) === REMOTE_PARENT

/** The span's name, or the log record's event name. */
export function itemName(batch: SpanBatch, i: number): string {
  const at = column(batch, i, 'name')
  return batch.body.toString('utf8', at, at + column(batch, i, 'name_length'))
}

/** Nanoseconds since the Unix epoch; 0n where the exporter left it out. */
export const startTime = (batch: SpanBatch, i: number): bigint => nanoseconds(batch.body, column(batch, i, 'start_time'))
export const endTime = (batch: SpanBatch, i: number): bigint => nanoseconds(batch.body, column(batch, i, 'end_time'))

/** The item's own bytes: a Span or LogRecord message. */
export const payload = (batch: SpanBatch, i: number): Buffer => batch.body.subarray(column(batch, i, 'start'), column(batch, i, 'end'))
export const payloadSize = (batch: SpanBatch, i: number): number => column(batch, i, 'end') - column(batch, i, 'start')
/** Writes them at `at` and returns where they end. */
export const copyPayload = (batch: SpanBatch, i: number, to: Buffer, at: number): number =>
  at + batch.body.copy(to, at, column(batch, i, 'start'), column(batch, i, 'end'))
export const resource = (batch: SpanBatch, i: number): Envelope => batch.resources[column(batch, i, 'resource')]!
export const scope = (batch: SpanBatch, i: number): Envelope => batch.scopes[column(batch, i, 'scope')]!

/** Of every item. Neighbours are mostly of one trace, and then share one string. */
export function traceIds(batch: SpanBatch): string[] {
  const { body } = batch
  const ids: string[] = []
  let last = 0
  let id = ''
  for (let i = 0; i < batch.count; i++) {
    const at = column(batch, i, 'trace_id')
    if (at !== 0 && (last === 0 || !sameBytes(body, at, last, 16))) id = hex(body, at, 16)
    if (at !== 0) last = at
    ids.push(at === 0 ? '' : id)
  }
  return ids
}

function sameBytes(body: Buffer, a: number, b: number, size: number): boolean {
  for (let i = 0; i < size; i++) if (body[a + i] !== body[b + i]) return false
  return true
}

const hex = (body: Buffer, at: number, size: number) => (at === 0 ? '' : body.toString('hex', at, at + size))
const nanoseconds = (body: Buffer, at: number) => (at === 0 ? 0n : body.readBigUInt64LE(at))
