// Spans of calls as OTLP's protobuf, written at once: by way of JSON (data/otlp_json.ts) they would cost a fifth of the whole endpoint. The
// writer fills its bytes from their end, so that what is written last is read first.

import { encode } from '../data/otlp_json.ts'
import { InstrumentationScope, Resource } from '../data/otlp_messages.ts'
import {
  prependBytes,
  prependDouble,
  prependFixed64,
  prependHex,
  prependInt64,
  prependText,
  prependVarint,
  size,
  writer,
  written,
} from '../data/wire.ts'

export interface SpanHead {
  /** In hex, as the next two; '' where it has no parent. */
  readonly trace_id: string
  readonly span_id: string
  readonly parent_span_id: string
  readonly name: string
  readonly kind: number
  /** Milliseconds since the epoch. */
  readonly started_at: number
  readonly ended_at: number
  /** What went wrong; undefined: nothing. */
  readonly error: string | undefined
}

export type Attribute = string | number | readonly string[]
/** Undefined is no attribute. */
export type WriteAttribute = (key: string, value: Attribute | undefined) => void

export interface SpanWriter {
  /** `attributes` gives them, one by one. */
  add(head: SpanHead, attributes: (write: WriteAttribute) => void): void
  /** Bytes of the spans since the last `take`. */
  size(): number
  /** Them as an export request. */
  take(): Buffer
}

/** Tags: a field's number and wire type, `number << 3 | type`. */
const REQUEST = { resource_spans: 0x0a }
const RESOURCE_SPANS = { resource: 0x0a, scope_spans: 0x12 }
const SCOPE_SPANS = { scope: 0x0a, spans: 0x12 }
const SPAN = { trace_id: 0x0a, span_id: 0x12, parent: 0x22, name: 0x2a, kind: 0x30, start: 0x39, end: 0x41, attributes: 0x4a, status: 0x7a }
const STATUS = { message: 0x12, code: 0x18 }
const KEY_VALUE = { key: 0x0a, value: 0x12 }
const ANY_VALUE = { string: 0x0a, int: 0x18, double: 0x21, array: 0x2a }
const ARRAY_VALUE = { values: 0x0a }

const ERROR = 2
const NS = 1_000_000n
const OUR_RESOURCE = encode(Resource, { attributes: [{ key: 'service.name', value: { stringValue: 'leyden' } }] })
const OUR_SCOPE = encode(InstrumentationScope, { name: 'leyden.openai' })

/** A writer that has become larger than this is not kept. */
const KEPT_BYTES = 1024 * 1024

export function createSpanWriter(): SpanWriter {
  let w = writer()

  function add(head: SpanHead, attributes: (write: WriteAttribute) => void): void {
    const before = size(w)
    if (head.error !== undefined) writeStatus(head.error)
    attributes(writeAttribute)
    prependFixed64(w, BigInt(head.ended_at) * NS)
    prependVarint(w, SPAN.end)
    prependFixed64(w, BigInt(head.started_at) * NS)
    prependVarint(w, SPAN.start)
    prependVarint(w, head.kind)
    prependVarint(w, SPAN.kind)
    writeText(SPAN.name, head.name)
    if (head.parent_span_id !== '') writeId(SPAN.parent, head.parent_span_id)
    writeId(SPAN.span_id, head.span_id)
    writeId(SPAN.trace_id, head.trace_id)
    close(SCOPE_SPANS.spans, before)
  }

  function take(): Buffer {
    prependBytes(w, OUR_SCOPE)
    prependVarint(w, SCOPE_SPANS.scope)
    close(RESOURCE_SPANS.scope_spans, 0)
    prependBytes(w, OUR_RESOURCE)
    prependVarint(w, RESOURCE_SPANS.resource)
    close(REQUEST.resource_spans, 0)
    const request = written(w)
    if (w.bytes.length > KEPT_BYTES) w = writer()
    w.at = w.bytes.length
    return request
  }

  /** Ends a message that began when so much was written. */
  function close(tag: number, before: number): void {
    prependVarint(w, size(w) - before)
    prependVarint(w, tag)
  }

  function writeStatus(message: string): void {
    const before = size(w)
    prependVarint(w, ERROR)
    prependVarint(w, STATUS.code)
    writeText(STATUS.message, message)
    close(SPAN.status, before)
  }

  function writeAttribute(key: string, value: Attribute | undefined): void {
    if (value === undefined) return
    const before = size(w)
    writeValue(value)
    close(KEY_VALUE.value, before)
    writeText(KEY_VALUE.key, key)
    close(SPAN.attributes, before)
  }

  function writeValue(value: Attribute): void {
    if (typeof value === 'string') return writeText(ANY_VALUE.string, value)
    if (typeof value === 'object') return writeTexts(value)
    if (Number.isSafeInteger(value)) {
      if (value < 0) prependInt64(w, BigInt(value))
      else prependVarint(w, value)
      return prependVarint(w, ANY_VALUE.int)
    }
    prependDouble(w, value)
    prependVarint(w, ANY_VALUE.double)
  }

  function writeTexts(texts: readonly string[]): void {
    const before = size(w)
    for (const text of texts.toReversed()) {
      const beforeText = size(w)
      writeText(ANY_VALUE.string, text)
      close(ARRAY_VALUE.values, beforeText)
    }
    close(ANY_VALUE.array, before)
  }

  function writeText(tag: number, text: string): void {
    prependText(w, text)
    prependVarint(w, tag)
  }

  function writeId(tag: number, hex: string): void {
    prependHex(w, hex)
    prependVarint(w, tag)
  }

  return { add, size: () => size(w), take }
}
