// Rows of `spans`, straight from the bytes of the request: no string is made of a payload.

import { placeOf } from '../data/routing.ts'
import { attribute, resource, scope } from '../data/scan.ts'
import { COLUMN, STRIDE, type Envelope, type SpanBatch } from '../data/span_batch.ts'
import { putAgain, putBytes, putString, putUInt32, putUInt64, putUInt8, reserve, type Rows } from './row_binary.ts'

const RESPONSE_ID = 'gen_ai.response.id'
const LAST_KIND = 5
const LAST_STATUS = 2
const MAX_START = 2n ** 63n - 1n

/** What neighbours mostly share comes first. */
export const SPAN_COLUMNS =
  'tenant, received_at, signal, service, resource, scope, rollout_hint, trace_id, start_time, span_id, parent_span_id, name, kind, status, duration, position, response_id, payload'

export interface SpanRows {
  /** Appends item i of a batch. */
  put(batch: SpanBatch, i: number, hint: string): void
}

/** Writes to `rows`, which hold nothing yet. `receivedAt` in milliseconds since the epoch. */
export function spanRows(rows: Rows, receivedAt: number): SpanRows {
  let ownSignal: SpanBatch['signal'] | undefined
  let ownResource: Envelope | undefined
  let ownScope: Envelope | undefined
  let ownHint = ''
  /** Where what the last row shares with its neighbours stands. */
  let sharedFrom = 0
  let sharedTo = 0

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
    putOwn(rows, batch, i, hint)
    rows.count++
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

function putOwn(rows: Rows, batch: SpanBatch, i: number, hint: string): void {
  const { body, columns, keys } = batch
  const at = i * STRIDE
  const name = columns[at + COLUMN.name]!
  if (columns[at + COLUMN.trace_id] === 0) putString(rows, placeOf('', hint))
  else putHex(rows, body, columns[at + COLUMN.trace_id]!, 16)
  putTime(rows, body, columns[at + COLUMN.start_time]!)
  putHex(rows, body, columns[at + COLUMN.span_id]!, 8)
  putHex(rows, body, columns[at + COLUMN.parent_span_id]!, 8)
  putBytes(rows, body, name, name + columns[at + COLUMN.name_length]!)
  putUInt8(rows, atMost(columns[at + COLUMN.kind]!, LAST_KIND))
  putUInt8(rows, atMost(columns[at + COLUMN.status]!, LAST_STATUS))
  putDuration(rows, body, columns[at + COLUMN.start_time]!, columns[at + COLUMN.end_time]!)
  putUInt32(rows, rows.count)
  putString(rows, keys.includes(RESPONSE_ID) ? textOf(attribute(batch, i, RESPONSE_ID)) : '')
  putBytes(rows, body, columns[at + COLUMN.start]!, columns[at + COLUMN.end]!)
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** An enum's number that ClickHouse does not know would refuse the whole insert. */
const atMost = (value: number, last: number): number => (value >= 0 && value <= last ? value : 0)

const DIGITS = Buffer.from('0123456789abcdef')

function putHex(rows: Rows, source: Buffer, offset: number, size: number): void {
  reserve(rows, 1 + size * 2)
  const { bytes } = rows
  let to = rows.length
  bytes[to++] = offset === 0 ? 0 : size * 2
  for (let from = offset; offset !== 0 && from < offset + size; from++) {
    bytes[to++] = DIGITS[source[from]! >>> 4]!
    bytes[to++] = DIGITS[source[from]! & 15]!
  }
  rows.length = to
}

/** Fixed64 nanoseconds are a DateTime64(9)'s ticks, up to the year 2262. */
function putTime(rows: Rows, source: Buffer, offset: number): void {
  if (offset === 0 || source[offset + 7]! > 127) return putUInt64(rows, offset === 0 ? 0n : MAX_START)
  reserve(rows, 8)
  for (let from = offset; from < offset + 8; from++) rows.bytes[rows.length++] = source[from]!
}

/** 0 where the span was not ended, or ended before it began. */
function putDuration(rows: Rows, source: Buffer, start: number, end: number): void {
  if (start === 0 || end === 0) return putUInt64(rows, 0n)
  let low = source.readUInt32LE(end) - source.readUInt32LE(start)
  let high = source.readUInt32LE(end + 4) - source.readUInt32LE(start + 4)
  if (low < 0) {
    low += 2 ** 32
    high--
  }
  if (high < 0) low = high = 0
  reserve(rows, 8)
  rows.bytes.writeUInt32LE(low, rows.length)
  rows.bytes.writeUInt32LE(high, rows.length + 4)
  rows.length += 8
}
