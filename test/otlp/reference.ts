// What a request holds according to protobufjs: the judge of scan() and readItem().

import protobuf from 'protobufjs'

import type { Attributes, Item, Value } from '../../data/span.ts'
import { requestType } from './bodies.ts'

type Json = Record<string, any>

// Text that is not UTF-8 is repaired here too, and values may be nested as deeply as we allow.
for (const reader of [protobuf.Reader, protobuf.BufferReader]) {
  reader.prototype.stringVerify = function (this: protobuf.Reader) {
    return this.string()
  }
}
protobuf.Reader.recursionLimit = 1_000

export interface Reference {
  readonly accepted: Item[]
  readonly rejected: number
}

/** Throws what protobufjs throws. */
export function reference(signal: 'traces' | 'logs', bytes: Buffer): Reference {
  const request = requestType(signal).decode(bytes) as Json
  const accepted: Item[] = []
  let rejected = 0
  for (const { resource, scopeSpans, scopeLogs } of [...(request.resourceSpans ?? []), ...(request.resourceLogs ?? [])]) {
    for (const { scope, spans, logRecords } of [...(scopeSpans ?? []), ...(scopeLogs ?? [])]) {
      const around = {
        resource: attributes(resource?.attributes),
        scope: { name: scope?.name ?? '', version: scope?.version ?? '', attributes: attributes(scope?.attributes) },
      }
      for (const span of spans ?? []) {
        const item = { ...spanOf(span), ...around }
        const badParent = item.parent_span_id === '' && span.parentSpanId.length > 0 && !isZero(span.parentSpanId, 8)
        if (item.trace_id && item.span_id && !badParent && isText(item.name)) accepted.push(item)
        else rejected++
      }
      for (const record of logRecords ?? []) {
        if (isText(record.eventName)) accepted.push({ ...logOf(record), ...around })
        else rejected++
      }
    }
  }
  return { accepted, rejected }
}

const spanOf = (span: Json) => ({
  signal: 'span' as const,
  trace_id: id(span.traceId, 16),
  span_id: id(span.spanId, 8),
  parent_span_id: id(span.parentSpanId, 8),
  remote_parent: (span.flags & 0x300) === 0x300,
  name: span.name as string,
  kind: span.kind as number,
  start_time: big(span.startTimeUnixNano),
  end_time: big(span.endTimeUnixNano),
  status: (span.status?.code ?? 0) as number,
  status_message: (span.status?.message ?? '') as string,
  attributes: attributes(span.attributes),
  dropped_attributes: span.droppedAttributesCount as number,
  events: (span.events as Json[]).map((event) => ({
    name: event.name as string,
    time: big(event.timeUnixNano),
    attributes: attributes(event.attributes),
  })),
  links: (span.links as Json[]).map((link) => ({
    trace_id: id(link.traceId, 16),
    span_id: id(link.spanId, 8),
    attributes: attributes(link.attributes),
  })),
})

function logOf(record: Json) {
  const own = attributes(record.attributes)
  const named = own['event.name']
  return {
    signal: 'log' as const,
    trace_id: id(record.traceId, 16),
    span_id: id(record.spanId, 8),
    time: big(record.timeUnixNano) || big(record.observedTimeUnixNano),
    severity: record.severityNumber as number,
    event_name: (record.eventName as string) || (typeof named === 'string' ? named : ''),
    body: valueOf(record.body),
    attributes: own,
    dropped_attributes: record.droppedAttributesCount as number,
  }
}

function attributes(list: Json[] = []): Attributes {
  const map = Object.create(null) as Record<string, Value>
  for (const { key, value } of list) map[key] = valueOf(value)
  return map
}

function valueOf(any: Json | null | undefined): Value {
  switch (any?.value) {
    case 'stringValue':
    case 'boolValue':
    case 'doubleValue':
      return any[any.value]
    case 'intValue': {
      const value = BigInt.asIntN(64, big(any.intValue))
      return Number.isSafeInteger(Number(value)) ? Number(value) : value
    }
    case 'bytesValue':
      return new Uint8Array(any.bytesValue)
    case 'arrayValue':
      return (any.arrayValue.values as Json[]).map(valueOf)
    case 'kvlistValue':
      return attributes(any.kvlistValue.values)
    default:
      return null
  }
}

const big = (long: Json | number) => BigInt(String(long))

const id = (bytes: Uint8Array, size: number) => (bytes.length !== size || isZero(bytes, size) ? '' : Buffer.from(bytes).toString('hex'))
const isZero = (bytes: Uint8Array, size: number) => bytes.length === size && bytes.every((byte) => byte === 0)
const isText = (text: string) => !text.includes('\ufffd')
