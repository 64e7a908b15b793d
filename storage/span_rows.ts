// Rows of `spans`, straight from the bytes of the request: no string is made of a payload.

import { putHex, viewOf, word } from '../data/bytes.ts'
import { knownEnvelope } from '../data/known_envelopes.ts'
import { isPlainAscii, plain } from '../data/plain_text.ts'
import { placeOf } from '../data/routing.ts'
import { attribute, resource, scope } from '../data/scan.ts'
import { copyShared, NOT_SHARED, placeInShared } from '../data/shared_memory.ts'
import { COLUMN, nameLength, payloadSize, slotOf, STRIDE, type Envelope, type RawItem, type SpanBatch } from '../data/span_batch.ts'
import {
  MOST_VARINT,
  putAgain,
  putBytes,
  putString,
  putUInt64,
  putUInt8,
  reserve,
  writeBytes,
  writeVarint,
  type Rows,
} from './row_binary.ts'
import { readBytes, readUInt8, readVarint, type Reader } from './row_reader.ts'

const RESPONSE_ID = 'gen_ai.response.id'
const LAST_KIND = 5
const LAST_STATUS = 2

/** What neighbours mostly share comes first. */
export const SPAN_COLUMNS =
  'tenant, received_at, signal, service, resource, scope, rollout_hint, trace_id, start_time, span_id, parent_span_id, name, kind, status, duration, position, response_id, payload'

export interface SpanRows {
  /** Appends item i of a batch. */
  put(batch: SpanBatch, i: number, hint: string): void
}

/** Room for all of a row but the payload, its name, and what it shares with others. */
const SMALL_PARTS = 512

/** About what a row takes: only a long response id, or text that is not ASCII, may make it more. */
export function rowSize(batch: SpanBatch, i: number, hint: string): number {
  const shared = resource(batch, i).bytes.length + scope(batch, i).bytes.length + hint.length
  return SMALL_PARTS + shared + payloadSize(batch, i) + nameLength(batch, i)
}

/** Writes to `rows`, which hold nothing yet. `receivedAt` in milliseconds since the epoch; `place`: where the rows' bytes begin in the shared memory. */
export function spanRows(rows: Rows, receivedAt: number, place = NOT_SHARED): SpanRows {
  let ownSignal: SpanBatch['signal'] | undefined
  let ownResource: Envelope | undefined
  let ownScope: Envelope | undefined
  let ownHint = ''
  /** Where what the last row shares with its neighbours stands. */
  let sharedFrom = 0
  let sharedTo = 0
  const { bytes: shared } = rows
  /** Of the rows' bytes, which are others once they had to grow. */
  let bytes = shared
  let view = viewOf(bytes)
  let ownBody: Buffer | undefined
  /** Where it begins in the shared memory. */
  let bodyPlace = NOT_SHARED

  function put(batch: SpanBatch, i: number, hint: string): void {
    const itsResource = resource(batch, i)
    const itsScope = scope(batch, i)
    if (itsResource === ownResource && itsScope === ownScope && hint === ownHint && batch.signal === ownSignal) {
      putAgain(rows, sharedFrom, sharedTo)
    } else {
      sharedFrom = rows.length
      putShared(batch.signal, itsResource, itsScope, hint)
      sharedTo = rows.length
      ownSignal = batch.signal
      ownResource = itsResource
      ownScope = itsScope
      ownHint = hint
    }
    if (batch.columns[i * STRIDE + COLUMN.trace_id] === 0) putString(rows, placeOf('', hint))
    reserve(rows, FIXED + nameLength(batch, i))
    if (rows.bytes !== bytes) view = viewOf((bytes = rows.bytes))
    putOwn(rows, view, batch, i)
    putResponseId(rows, batch, i)
    putPayload(batch.body, batch.columns[i * STRIDE + COLUMN.start]!, batch.columns[i * STRIDE + COLUMN.end]!)
    rows.count++
  }

  function putPayload(body: Buffer, start: number, end: number): void {
    if (body !== ownBody) {
      ownBody = body
      bodyPlace = place === NOT_SHARED ? NOT_SHARED : placeInShared(body)
    }
    const size = end - start
    if (bodyPlace === NOT_SHARED || rows.bytes !== shared || rows.length + MOST_VARINT + size > shared.length)
      return putBytes(rows, body, start, end)
    const to = writeVarint(shared, rows.length, size)
    copyShared(place + to, bodyPlace + start, bodyPlace + end)
    rows.length = to + size
  }

  function putShared(signal: SpanBatch['signal'], { bytes, attributes }: Envelope, { bytes: scopeBytes }: Envelope, hint: string): void {
    putUInt8(rows, 0)
    putUInt64(rows, receivedAt)
    putUInt8(rows, signal === 'traces' ? 0 : 1)
    putString(rows, textOf(attributes['service.name']))
    putBytes(rows, bytes)
    putBytes(rows, scopeBytes)
    putString(rows, hint)
  }

  return { put }
}

/** What the fields of a fixed size take, and the length of the name. */
const FIXED = 33 + 8 + 17 + 17 + 5 + 1 + 1 + 8 + 4

/** What is the item's own, up to its response id; there is room for it. */
function putOwn(rows: Rows, view: DataView, { body, columns }: SpanBatch, i: number): void {
  const at = i * STRIDE
  const trace = columns[at + COLUMN.trace_id]!
  const start = columns[at + COLUMN.start_time]!
  const name = columns[at + COLUMN.name]!
  const { bytes, count } = rows
  let to = rows.length
  if (trace !== 0) to = writeHex(view, to, body, trace, 16)
  to = writeTime(view, to, body, start)
  to = writeHex(view, to, body, columns[at + COLUMN.span_id]!, 8)
  to = writeHex(view, to, body, columns[at + COLUMN.parent_span_id]!, 8)
  to = writeBytes(bytes, to, body, name, name + columns[at + COLUMN.name_length]!)
  bytes[to++] = atMost(columns[at + COLUMN.kind]!, LAST_KIND)
  bytes[to++] = atMost(columns[at + COLUMN.status]!, LAST_STATUS)
  to = writeDuration(view, to, body, start, columns[at + COLUMN.end_time]!)
  view.setInt32(to, count, true)
  rows.length = to + 4
}

function putResponseId(rows: Rows, batch: SpanBatch, i: number): void {
  const slot = slotOf(batch, i, RESPONSE_ID)
  if (slot === 0) putUInt8(rows, 0)
  else if (isPlainAscii(batch.body, slot)) putBytes(rows, batch.body, plain.start, plain.end)
  else putString(rows, textOf(attribute(batch, i, RESPONSE_ID)))
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** An enum's number that ClickHouse does not know would refuse the whole insert. */
const atMost = (value: number, last: number): number => (value >= 0 && value <= last ? value : 0)

/** As a string; an empty one where there is no id. Returns where it ends, as all that follow do. */
function writeHex(view: DataView, at: number, source: Buffer, offset: number, size: number): number {
  view.setUint8(at, offset === 0 ? 0 : size * 2)
  return offset === 0 ? at + 1 : putHex(view, at + 1, source, offset, size)
}

/** Fixed64 nanoseconds are a DateTime64(9)'s ticks, up to the year 2262. */
function writeTime(view: DataView, at: number, source: Buffer, offset: number): number {
  if (offset === 0) return writeWords(view, at, 0, 0)
  const high = word(source, offset + 4)
  return high < 0 ? writeWords(view, at, -1, LARGEST) : writeWords(view, at, word(source, offset), high)
}

/** 0 where the span says no start (a start of 0 is none), was not ended, or ended before it began. */
function writeDuration(view: DataView, at: number, source: Buffer, start: number, end: number): number {
  if (start === 0 || end === 0 || isBefore(source, end, start)) return writeWords(view, at, 0, 0)
  const low = word(source, end)
  const startLow = word(source, start)
  const startHigh = word(source, start + 4)
  if ((startLow | startHigh) === 0) return writeWords(view, at, 0, 0)
  const borrowed = lessThan(low, startLow) ? 1 : 0
  return writeWords(view, at, (low - startLow) | 0, (word(source, end + 4) - startHigh - borrowed) | 0)
}

/** A 64-bit integer of two words. */
function writeWords(view: DataView, at: number, low: number, high: number): number {
  view.setInt32(at, low, true)
  view.setInt32(at + 4, high, true)
  return at + 8
}

/** Of the words of an Int64. */
const LARGEST = 2 ** 31 - 1

/** Whether one fixed64 is less than another. */
function isBefore(bytes: Buffer, one: number, other: number): boolean {
  const high = word(bytes, one + 4)
  const otherHigh = word(bytes, other + 4)
  return high === otherHigh ? lessThan(word(bytes, one), word(bytes, other)) : lessThan(high, otherHigh)
}

/** Words are integers of 32 bits, since larger numbers would be objects: with the sign turned, they compare as if they had none. */
const lessThan = (one: number, other: number): boolean => (one ^ SIGN) < (other ^ SIGN)
const SIGN = 1 << 31

/** The item of the row that begins there, in memory of its own. */
export function itemOfRow(bytes: Buffer, start: number): RawItem {
  const row: Reader = { bytes, at: start }
  skipText(row) // tenant
  row.at += 8 // received_at
  const signal = readUInt8(row) === 0 ? 'traces' : 'logs'
  skipText(row) // service
  const resource = envelopeOf('resource', row)
  const scope = envelopeOf('scope', row)
  skipText(row) // rollout_hint
  skipText(row) // trace_id
  row.at += 8 // start_time
  skipText(row) // span_id
  skipText(row) // parent_span_id
  skipText(row) // name
  row.at += 1 + 1 + 8 + 4 // kind, status, duration, position
  skipText(row) // response_id
  return { signal, payload: Buffer.from(readBytes(row)), resource, scope }
}

function skipText(row: Reader): void {
  const size = readVarint(row)
  row.at += size
}

/** Neighbours mostly share them. */
const latest: { resource?: Envelope; scope?: Envelope } = {}

function envelopeOf(kind: 'resource' | 'scope', row: Reader): Envelope {
  const bytes = readBytes(row)
  const before = latest[kind]
  if (before?.bytes.equals(bytes)) return before
  return (latest[kind] = knownEnvelope(kind, Buffer.from(bytes), ''))
}
