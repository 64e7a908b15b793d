// From OTLP bytes to objects: spans, log records, attributes. Used where a rollout is read, on
// bytes that scan() accepted. Fields may come in any order, twice, or in parts: the last one
// counts, and messages sent in parts are merged, as the protobuf rules say.

import { knownTrace } from './known_traces.ts'
import { shortText, textOfField } from './marks.ts'
import { isPlainAscii, plain } from './plain_text.ts'
import { addAttribute, emptyAttributes, NO_ATTRIBUTES, NO_KEYS, readKeyValue, readValue, type Mutable } from './read_value.ts'
import type { Attributes, Item, LogRecord, Scope, Span, SpanEvent, SpanLink, Value } from './span.ts'
import { rawItem, REMOTE_PARENT, type Envelope, type RawItem, type SpanBatch } from './span_batch.ts'
import { fixed, int32, open, skip, tag, text, type Cursor } from './wire.ts'

/** Item i of a batch, whole. */
export const readItem = (batch: SpanBatch, i: number): Item => readRaw(rawItem(batch, i))

export const readRaw = ({ signal, payload, resource, scope }: RawItem): Item =>
  signal === 'traces' ? readSpan(payload, resource, scope) : readLog(payload, resource, scope)

/** The item's attribute `key`, which must be one of `batch.keys`. Resource attributes are not looked at. */
export function attribute(batch: SpanBatch, i: number, key: string): Value | undefined {
  const { body, keys, slots } = batch
  const slot = slots[i * keys.length + keys.indexOf(key)]
  return slot ? attributeAt(body, slot) : undefined
}

/** The value of the KeyValue whose length prefix stands at `slot`. */
export function attributeAt(bytes: Buffer, slot: number): Value {
  if (isPlainAscii(bytes, slot)) return bytes.toString('latin1', plain.start, plain.end)
  const c = { bytes, pos: slot }
  return readKeyValue(c, open(c, bytes.length)).value
}

const NO_EVENTS: readonly SpanEvent[] = []
const NO_LINKS: readonly SpanLink[] = []

/**
 * A span from its own bytes, those of its Resource and those of its InstrumentationScope. With `only`, of its attributes those of these
 * keys, and no events and links. Long texts of the keys `inBytes` stay what they are, a part of the payload.
 */
export function readSpan(
  payload: Buffer,
  resource: Envelope | Buffer,
  scope: Envelope | Buffer,
  { only, inBytes = NO_KEYS }: { readonly only?: ReadonlySet<string> | undefined; readonly inBytes?: ReadonlySet<string> } = {},
): Span {
  const c = { bytes: payload, pos: 0 }
  const end = payload.length
  let attributes: Mutable | undefined
  let events: SpanEvent[] | undefined
  let links: SpanLink[] | undefined
  let trace_id = ''
  let span_id = ''
  let parent_span_id = ''
  let name = ''
  let kind = 0
  let start_time = 0n
  let end_time = 0n
  let dropped_attributes = 0
  let remote_parent = false
  let status = 0
  let status_message = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (only && isPassedOver(c, field, end, only)) continue
    if (field === 10) trace_id = id(c, end, 16)
    else if (field === 18) span_id = id(c, end, 8)
    else if (field === 34) parent_span_id = id(c, end, 8)
    else if (field === 42) name = shortText(c, end)
    else if (field === 48) kind = int32(c, end)
    else if (field === 57) start_time = nanoseconds(c, end)
    else if (field === 65) end_time = nanoseconds(c, end)
    else if (field === 74) addAttribute((attributes ??= emptyAttributes()), c, open(c, end), inBytes)
    else if (field === 80) dropped_attributes = int32(c, end) >>> 0
    else if (field === 90) (events ??= []).push(readEvent(c, open(c, end)))
    else if (field === 106) (links ??= []).push(readLink(c, open(c, end)))
    else if (field === 133) remote_parent = (payload.readUInt32LE(fixed(c, 4, end)) & REMOTE_PARENT) === REMOTE_PARENT
    else if (field === 122) {
      const statusEnd = open(c, end)
      while (c.pos < statusEnd) {
        const part = tag(c, statusEnd)
        if (part === 18) status_message = text(c, statusEnd)
        else if (part === 24) status = int32(c, statusEnd)
        else skip(c, part, statusEnd)
      }
    } else skip(c, field, end)
  }
  return {
    signal: 'span',
    trace_id,
    span_id,
    parent_span_id,
    remote_parent,
    name,
    kind,
    start_time,
    end_time,
    status,
    status_message,
    attributes: attributes ?? NO_ATTRIBUTES,
    dropped_attributes,
    events: events ?? NO_EVENTS,
    links: links ?? NO_LINKS,
    resource: resourceAttributes(resource),
    scope: toScope(scope),
  }
}

/** Events and links, and attributes of other keys. */
function isPassedOver(c: Cursor, field: number, end: number, only: ReadonlySet<string>): boolean {
  if (field !== 74 && field !== 90 && field !== 106) return false
  const start = c.pos
  const fieldEnd = open(c, end)
  const isWanted = field === 74 && only.size > 0 && only.has(textOfField(c, 10, fieldEnd))
  c.pos = isWanted ? start : fieldEnd
  return !isWanted
}

/** A log record, likewise. */
export function readLog(payload: Buffer, resource: Envelope | Buffer, scope: Envelope | Buffer): LogRecord {
  const c = { bytes: payload, pos: 0 }
  const end = payload.length
  const attributes = emptyAttributes()
  let trace_id = ''
  let span_id = ''
  let time = 0n
  let observed = 0n
  let severity = 0
  let event_name = ''
  let body: Value = null
  let dropped_attributes = 0
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 9) time = nanoseconds(c, end)
    else if (field === 16) severity = int32(c, end)
    else if (field === 42) body = readValue(c, open(c, end), body)
    else if (field === 50) addAttribute(attributes, c, open(c, end))
    else if (field === 56) dropped_attributes = int32(c, end) >>> 0
    else if (field === 74) trace_id = id(c, end, 16)
    else if (field === 82) span_id = id(c, end, 8)
    else if (field === 89) observed = nanoseconds(c, end)
    else if (field === 98) event_name = text(c, end)
    else skip(c, field, end)
  }
  const named = attributes['event.name']
  return {
    signal: 'log',
    trace_id,
    span_id,
    time: time || observed,
    severity,
    event_name: event_name || (typeof named === 'string' ? named : ''),
    body,
    attributes,
    dropped_attributes,
    resource: resourceAttributes(resource),
    scope: toScope(scope),
  }
}

/** What a Resource (attributes in field 1) or an InstrumentationScope (field 3) says. */
export function readEnvelope(kind: 'resource' | 'scope', bytes: Buffer, schema_url = ''): Envelope {
  const c = { bytes, pos: 0 }
  const end = bytes.length
  const attributes = emptyAttributes()
  let name = ''
  let version = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === (kind === 'resource' ? 10 : 26)) addAttribute(attributes, c, open(c, end))
    else if (kind === 'scope' && field === 10) name = text(c, end)
    else if (kind === 'scope' && field === 18) version = text(c, end)
    else skip(c, field, end)
  }
  return { bytes, name, version, schema_url, attributes }
}

const resourceAttributes = (resource: Envelope | Buffer): Attributes =>
  (Buffer.isBuffer(resource) ? readEnvelope('resource', resource) : resource).attributes

function toScope(scope: Envelope | Buffer): Scope {
  const { name, version, attributes } = Buffer.isBuffer(scope) ? readEnvelope('scope', scope) : scope
  return { name, version, attributes }
}

function readEvent(c: Cursor, end: number): SpanEvent {
  const attributes = emptyAttributes()
  let name = ''
  let time = 0n
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 9) time = nanoseconds(c, end)
    else if (field === 18) name = text(c, end)
    else if (field === 26) addAttribute(attributes, c, open(c, end))
    else skip(c, field, end)
  }
  return { name, time, attributes }
}

function readLink(c: Cursor, end: number): SpanLink {
  const attributes = emptyAttributes()
  let trace_id = ''
  let span_id = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) trace_id = id(c, end, 16)
    else if (field === 18) span_id = id(c, end, 8)
    else if (field === 34) addAttribute(attributes, c, open(c, end))
    else skip(c, field, end)
  }
  return { trace_id, span_id, attributes }
}

/** Lower-case hex; '' for an id that is empty, all zero or of another length. Spans of a trace share its id. */
function id(c: Cursor, end: number, size: number): string {
  const idEnd = open(c, end)
  const start = c.pos
  c.pos = idEnd
  if (idEnd - start !== size) return ''
  let i = start
  while (i < idEnd && c.bytes[i] === 0) i++
  if (i === idEnd) return ''
  return size === 16 ? knownTrace(c.bytes, start) : c.bytes.toString('hex', start, idEnd)
}

const nanoseconds = (c: Cursor, end: number): bigint => c.bytes.readBigUInt64LE(fixed(c, 8, end))
