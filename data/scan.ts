// From the bytes of an OTLP request to a SpanBatch: one pass, no object per span. Every byte is
// checked on the way, down to the last nested value, so that what was accepted can always be read.

import { ANY_VALUE, check, EVENT, LINK, MAX_DEPTH, RESOURCE, SCOPE, type Shape } from './check.ts'
import { findKey } from './key_table.ts'
import { id, isString, isZero, name, status, WRONG } from './item_fields.ts'
import { findEnvelope } from './known_envelopes.ts'
import { addPiece, forgetPieces, joinPieces, noPieces, type Pieces } from './pieces.ts'
import { passPlainField } from './plain_fields.ts'
import { passPlain, plain } from './plain_text.ts'
import { attributeAt } from './read.ts'
import type { Rejected } from './refusal.ts'
import { requestOf } from './request.ts'
import { ROUTING_KEYS } from './routing_keys.ts'
import { accept, beginScan, cellsOf, countParts, endScan, forgetItems, MAX_PARTS, newItem, reject, type Scan } from './scan_items.ts'
import { COLUMN, type SpanBatch } from './span_batch.ts'
import { fixed, int32, Malformed, open, skip, tag, text } from './wire.ts'

export { Malformed } from './wire.ts'
export { ROUTING_KEYS } from './routing_keys.ts'
export { MAX_ITEMS, MAX_PARTS } from './scan_items.ts'
export type { Rejected } from './refusal.ts'
export { attribute, readItem, readLog, readSpan } from './read.ts'
export { endTime, isRoot, itemName, parentSpanId, payload, resource, scope, spanId, startTime, traceId } from './span_batch.ts'

export interface Scanned {
  readonly batch: SpanBatch
  /** Spans that could not be accepted although the request could be read. */
  readonly rejected: readonly Rejected[]
}

/**
 * Reads an export request. Throws Malformed when the bytes are no such request. `body` is kept, not copied, unless some of
 * its items are rejected: the batch's own body then is without them, so that whoever passes it on passes on the batch.
 */
export function scan(signal: 'traces' | 'logs', body: Buffer, keys: readonly string[] = ROUTING_KEYS): Scanned {
  const s = beginScan(signal, body, keys)
  try {
    while (s.c.pos < body.length) {
      const field = tag(s.c, body.length)
      if (field === 10) resourceItems(s, open(s.c, body.length))
      else skip(s.c, field, body.length)
    }
  } catch (error) {
    forgetItems(s)
    throw error
  } finally {
    endScan(s)
  }
  const { count, resources, scopes, rejected } = s
  const { columns, slots } = cellsOf(s)
  // Arrays that have grown have room for more: while a request waits to be stored, it should hold no more than it is.
  const batch = { signal, body, count, columns, slots, keys, resources: resources.slice(), scopes: scopes.slice() }
  if (rejected.length === 0 || count === 0) return { batch, rejected }
  return { batch: scan(signal, requestOf(batch), keys).batch, rejected }
}

/** Of the resource and the scope that are being read: scans do not overlap. */
const ofResource = noPieces()
const ofScope = noPieces()

/** ResourceSpans or ResourceLogs. The resource may come after its spans, and in parts. */
function resourceItems(s: Scan, end: number): void {
  const { c } = s
  const before = s.count
  forgetPieces(ofResource)
  let schemaUrl = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) piece(s, end, 'resource', ofResource)
    else if (field === 18) scopeItems(s, open(c, end))
    else if (field === 26) schemaUrl = text(c, end)
    else skip(c, field, end)
  }
  if (s.count > before) s.resources.push(joinPieces('resource', c.bytes, ofResource, schemaUrl))
}

/** ScopeSpans or ScopeLogs. */
function scopeItems(s: Scan, end: number): void {
  const { c } = s
  const before = s.count
  const readItem = s.signal === 'traces' ? span : logRecord
  forgetPieces(ofScope)
  let schemaUrl = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 18) readItem(s, open(c, end))
    else if (field === 10) piece(s, end, 'scope', ofScope)
    else if (field === 26) schemaUrl = text(c, end)
    else skip(c, field, end)
  }
  if (s.count > before) s.scopes.push(joinPieces('scope', c.bytes, ofScope, schemaUrl))
}

function span(s: Scan, end: number): void {
  const { c, table } = s
  const { bytes } = c
  const at = newItem(s, end)
  const columns = s.columns.cells
  const slots = s.slots.cells
  const slot = s.slots.start + s.count * s.keys.length
  // A field as nearly all exporters write it is read here, any other by spanField(): both come to the same.
  let { pos } = c
  let parts = 0
  while (pos < end) {
    const field = bytes[pos]!
    let next = 0
    if (field === 74) {
      next = passPlain(bytes, pos + 1, end)
      if (next > 0) {
        parts++
        const key = findKey(table, bytes, plain.key, plain.keyLength)
        if (key >= 0) slots[slot + key] = pos + 1
      }
    } else next = passPlainField(bytes, pos, end, columns, at)
    if (next === 0) {
      c.pos = pos
      spanField(s, end, at)
      next = c.pos
    }
    pos = next
  }
  c.pos = pos
  s.parts += parts
  if (columns[at + COLUMN.trace_id]! <= 0) reject(s, at, 'trace_id must be 16 bytes (32 hex digits in JSON), not all zero')
  else if (columns[at + COLUMN.span_id]! <= 0) reject(s, at, 'span_id must be 8 bytes (16 hex digits in JSON), not all zero')
  else if (columns[at + COLUMN.parent_span_id] === WRONG) reject(s, at, 'parent_span_id must be 8 bytes (16 hex digits in JSON), or empty')
  else accept(s, at)
}

/** One field of a span, however it is written. */
function spanField(s: Scan, end: number, at: number): void {
  const { c } = s
  const columns = s.columns.cells
  const field = tag(c, end)
  if (field === 74) anyAttribute(s, end)
  else if (field === 10) columns[at + COLUMN.trace_id] = id(c, end, 16)
  else if (field === 18) columns[at + COLUMN.span_id] = id(c, end, 8)
  else if (field === 34) columns[at + COLUMN.parent_span_id] = id(c, end, 8)
  else if (field === 42) name(c, end, columns, at)
  else if (field === 48) columns[at + COLUMN.kind] = int32(c, end)
  else if (field === 57) columns[at + COLUMN.start_time] = fixed(c, 8, end)
  else if (field === 65) columns[at + COLUMN.end_time] = fixed(c, 8, end)
  else if (field === 90) nested(s, end, EVENT)
  else if (field === 106) {
    columns[at + COLUMN.link] ||= c.pos
    nested(s, end, LINK)
  } else if (field === 122) status(c, open(c, end), columns, at)
  else if (field === 133) columns[at + COLUMN.flags] = c.bytes.readUInt32LE(fixed(c, 4, end))
  else skip(c, field, end)
}

/** Its ids may be absent, and wrong ones count as absent: it is then outside every trace. */
function logRecord(s: Scan, end: number): void {
  const { c } = s
  const at = newItem(s, end)
  const columns = s.columns.cells
  let observed = 0
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 50) attributeField(s, end)
    else if (field === 42) nested(s, end, ANY_VALUE)
    else if (field === 9) columns[at + COLUMN.start_time] = fixed(c, 8, end)
    else if (field === 89) observed = fixed(c, 8, end)
    else if (field === 74) columns[at + COLUMN.trace_id] = Math.max(id(c, end, 16), 0)
    else if (field === 82) columns[at + COLUMN.span_id] = Math.max(id(c, end, 8), 0)
    else if (field === 98) name(c, end, columns, at)
    else skip(c, field, end)
  }
  const time = columns[at + COLUMN.start_time]!
  if (time === 0 || isZero(c.bytes, time, 8)) columns[at + COLUMN.start_time] = observed
  if (columns[at + COLUMN.name_length] === 0) olderEventName(s, at)
  accept(s, at)
}

/** SDKs before `event_name` send the name as an attribute. Equal bytes are the name, wherever they stand first. */
function olderEventName(s: Scan, at: number): void {
  const key = s.keys.indexOf('event.name')
  const slot = key < 0 ? 0 : s.slots.cells[s.slots.start + s.count * s.keys.length + key]!
  if (slot === 0) return
  const { bytes } = s.c
  const value = attributeAt(bytes, slot)
  const found = typeof value === 'string' ? bytes.subarray(slot, s.columns.cells[at + COLUMN.end]).indexOf(value) : -1
  if (found < 0) return
  s.columns.cells[at + COLUMN.name] = slot + found
  s.columns.cells[at + COLUMN.name_length] = Buffer.byteLength(value as string)
}

function nested(s: Scan, end: number, shape: Shape): void {
  s.parts += check(s.c, open(s.c, end), shape)
}

/** One KeyValue of the item; remembered when its key is one of those looked for. A later one of the same key counts. */
function attributeField(s: Scan, end: number): void {
  const { c } = s
  const slot = c.pos
  const next = passPlain(c.bytes, slot, end)
  if (next === 0) return anyAttribute(s, end)
  s.parts++
  c.pos = next
  remember(s, slot, plain.key, plain.keyLength)
}

/** The same of one that is not plain. */
function anyAttribute(s: Scan, end: number): void {
  const { c } = s
  const slot = c.pos
  s.parts++
  const valueEnd = open(c, end)
  let key = 0
  let keyLength = 0
  while (c.pos < valueEnd) {
    const field = tag(c, valueEnd)
    if (field === 10) {
      const keyEnd = open(c, valueEnd)
      key = c.pos
      keyLength = keyEnd - key
      c.pos = keyEnd
    } else if (field === 18) {
      if (!isString(c, valueEnd)) nested(s, valueEnd, ANY_VALUE)
    } else skip(c, field, valueEnd)
  }
  remember(s, slot, key, keyLength)
}

function remember(s: Scan, slot: number, key: number, keyLength: number): void {
  const found = findKey(s.table, s.c.bytes, key, keyLength)
  if (found >= 0) s.slots.cells[s.slots.start + s.count * s.keys.length + found] = slot
}

/** A resource or scope, or one piece of it, checked. Most were checked before, and are known by their bytes. */
function piece(s: Scan, end: number, kind: 'resource' | 'scope', whole: Pieces): void {
  const { c } = s
  const pieceEnd = open(c, end)
  const start = c.pos
  const known = findEnvelope(kind, c.bytes, start, pieceEnd)
  const parts = known ? known.parts : check(c, pieceEnd, kind === 'resource' ? RESOURCE : SCOPE)
  c.pos = pieceEnd
  if (parts === Infinity) throw new Malformed(`a value is nested deeper than ${MAX_DEPTH} messages before byte ${pieceEnd}`)
  if (parts > MAX_PARTS) throw new Malformed(`a resource or scope of more than ${MAX_PARTS} attributes before byte ${pieceEnd}`)
  countParts(s, parts)
  addPiece(whole, c.bytes, start, pieceEnd, parts, known)
}
