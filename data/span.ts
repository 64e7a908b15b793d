// One span and one log record as objects. Everything before a rollout is read works on bytes
// (span_batch.ts); these exist only from there on.

/** An OTLP AnyValue. Integers beyond 2^53 are bigints, bytes are Uint8Arrays, an empty AnyValue is null. */
export type Value = string | number | bigint | boolean | null | Uint8Array | readonly Value[] | { readonly [key: string]: Value }
export type Attributes = Readonly<Record<string, Value>>

export interface Scope {
  readonly name: string
  readonly version: string
  readonly attributes: Attributes
}

export interface SpanEvent {
  readonly name: string
  /** Nanoseconds since the Unix epoch. */
  readonly time: bigint
  readonly attributes: Attributes
}

export interface SpanLink {
  readonly trace_id: string
  readonly span_id: string
  readonly attributes: Attributes
}

export interface Span {
  readonly signal: 'span'
  /** 32 lower-case hex digits. */
  readonly trace_id: string
  /** 16 lower-case hex digits. */
  readonly span_id: string
  /** '' for a root. */
  readonly parent_span_id: string
  /** The parent is in another process: this span is where the work of this one began. */
  readonly remote_parent: boolean
  readonly name: string
  /** OTLP SpanKind, 0 to 5. */
  readonly kind: number
  /** Nanoseconds since the Unix epoch. 0n where the exporter left it out. */
  readonly start_time: bigint
  /** 0n for a span that was never ended. */
  readonly end_time: bigint
  /** OTLP status code: 0 unset, 1 ok, 2 error. */
  readonly status: number
  readonly status_message: string
  readonly attributes: Attributes
  readonly dropped_attributes: number
  readonly events: readonly SpanEvent[]
  readonly links: readonly SpanLink[]
  readonly resource: Attributes
  readonly scope: Scope
}

export interface LogRecord {
  readonly signal: 'log'
  /** '' where the record was written outside a span. */
  readonly trace_id: string
  readonly span_id: string
  /** Nanoseconds since the Unix epoch: time, else observed time. */
  readonly time: bigint
  readonly severity: number
  /** `event_name`, else the attribute `event.name`, else ''. */
  readonly event_name: string
  readonly body: Value
  readonly attributes: Attributes
  readonly dropped_attributes: number
  readonly resource: Attributes
  readonly scope: Scope
}

export type Item = Span | LogRecord
