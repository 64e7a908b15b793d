// A block of `spans` as ClickHouse's Native has it, straight from the bytes of requests: column by column, so that of a resource and a scope
// each row has but the number, and no string is made of a payload. In RowBinary they were a tenth of all bytes.

import { putHex, putSpanId, viewOf, word } from '../data/bytes.ts'
import { isPlainAscii, plain } from '../data/plain_text.ts'
import { placeOf } from '../data/routing.ts'
import { attribute, resource, scope } from '../data/scan.ts'
import { copyBytes } from '../data/shared_memory.ts'
import { COLUMN, STRIDE, type Envelope, type SpanBatch } from '../data/span_batch.ts'
import { SEGMENT_ROWS, type Segment } from '../data/span_memory.ts'
import { bytesOf, columnHead, putBlockHead, putLowCardinality, putSame } from './native_writer.ts'
import { openRows, putBytes, putRaw, putString, putUInt8, reserve, written, writeVarint, type Rows } from './row_binary.ts'

const RESPONSE_ID = 'gen_ai.response.id'
const LAST_KIND = 5
const LAST_STATUS = 2

/** Tenant is left to its default. */
const TYPES = {
  received_at: "DateTime64(3, 'UTC')",
  signal: 'Int8',
  service: 'LowCardinality(String)',
  resource: 'LowCardinality(String)',
  scope: 'LowCardinality(String)',
  rollout_hint: 'LowCardinality(String)',
  trace_id: 'String',
  start_time: "DateTime64(9, 'UTC')",
  span_id: 'FixedString(16)',
  parent_span_id: 'FixedString(16)',
  name: 'String',
  kind: 'Int8',
  status: 'Int8',
  duration: 'UInt64',
  position: 'UInt32',
  response_id: 'String',
  /** It comes last: see parts(). */
  payload: 'String',
} as const

export const SPAN_COLUMNS = Object.keys(TYPES).join(', ')

export interface SpanBlock {
  /** Appends item i of a batch; its payload has room in the segment. */
  put(batch: SpanBatch, i: number, hint: string): void
  /** All of it, in two pieces: its payloads, which are most of it, are not copied. Nothing where it has no rows. */
  parts(): Buffer[]
  /** Its memory is for others now. */
  release(): void
}

/** Columns of one block but the payload, which is in the segment. Those of a fixed size have room for all rows that a segment may have. */
interface Columns {
  readonly traces: Rows
  readonly names: Rows
  readonly responses: Rows
  /** Which of the block's each row has. */
  readonly hintOf: Uint16Array
  /** Each as eight units of two digits. */
  readonly spans: Uint16Array
  readonly parents: Uint16Array
  /** Each as two words. */
  readonly starts: Int32Array
  readonly durations: Int32Array
  readonly kinds: Buffer
  readonly statuses: Buffer
  /** All of them, when the block is sent. */
  readonly out: Rows
}

const newColumns = (): Columns => ({
  traces: openRows(),
  names: openRows(),
  responses: openRows(),
  hintOf: new Uint16Array(SEGMENT_ROWS),
  spans: new Uint16Array(8 * SEGMENT_ROWS),
  parents: new Uint16Array(8 * SEGMENT_ROWS),
  starts: new Int32Array(2 * SEGMENT_ROWS),
  durations: new Int32Array(2 * SEGMENT_ROWS),
  kinds: Buffer.alloc(SEGMENT_ROWS),
  statuses: Buffer.alloc(SEGMENT_ROWS),
  out: openRows(1 << 18),
})

/** Of blocks that are done with. */
const free: Columns[] = []

/** Of rows that are put into the segment from now on, by nobody else. `receivedAt` in milliseconds since the epoch. */
export function spanBlock(segment: Segment, receivedAt: number): SpanBlock {
  const columns = free.pop() ?? newColumns()
  const { traces, names, responses, hintOf, spans, parents, starts, durations, kinds, statuses } = columns
  for (const texts of [traces, names, responses]) texts.length = 0
  const { bytes } = segment
  const first = segment.count
  const start = segment.length
  const firstResource = segment.resources.length
  const firstScope = segment.scopes.length
  const resourceNumbers = new Map<Envelope, number>()
  const scopeNumbers = new Map<Envelope, number>()
  const hints = new Map<string, number>()
  let ownHint: string | undefined
  let hintNumber = 0
  let tracesSeen = traces.bytes
  let tracesView = viewOf(tracesSeen)
  let ownResource: Envelope | undefined
  let resourceNumber = 0
  let ownScope: Envelope | undefined
  let scopeNumber = 0
  /** ClickHouse has it once for each row. */
  let sharedSize = 0
  let ownKeys: readonly string[] = []
  let responsePlace = -1

  function put(batch: SpanBatch, i: number, hint: string): void {
    const { body, columns } = batch
    const at = i * STRIDE
    const row = segment.count++
    const n = row - first
    const before = traces.length + names.length + responses.length
    putEnvelopes(batch, i, row)
    segment.signals[row] = batch.signal === 'traces' ? 0 : 1
    if (hint !== ownHint) hintNumber = numberOfHint((ownHint = hint))
    hintOf[n] = hintNumber
    const trace = columns[at + COLUMN.trace_id]!
    if (trace === 0) putString(traces, placeOf('', hint))
    else putTraceId(body, trace)
    putId(spans, 8 * n, body, columns[at + COLUMN.span_id]!)
    putId(parents, 8 * n, body, columns[at + COLUMN.parent_span_id]!)
    const name = columns[at + COLUMN.name]!
    putBytes(names, body, name, name + columns[at + COLUMN.name_length]!)
    const began = columns[at + COLUMN.start_time]!
    putTime(starts, 2 * n, body, began)
    putDuration(durations, 2 * n, body, began, columns[at + COLUMN.end_time]!)
    kinds[n] = atMost(columns[at + COLUMN.kind]!, LAST_KIND)
    statuses[n] = atMost(columns[at + COLUMN.status]!, LAST_STATUS)
    if (batch.keys !== ownKeys) responsePlace = (ownKeys = batch.keys).indexOf(RESPONSE_ID)
    putResponseId(responses, batch, i, responsePlace < 0 ? 0 : batch.slots[i * ownKeys.length + responsePlace]!)
    segment.beside += FIXED + sharedSize + hint.length + traces.length + names.length + responses.length - before
    putPayload(body, columns[at + COLUMN.start]!, columns[at + COLUMN.end]!, row)
  }

  function putTraceId(body: Buffer, offset: number): void {
    reserve(traces, 33)
    if (traces.bytes !== tracesSeen) tracesView = viewOf((tracesSeen = traces.bytes))
    tracesView.setUint8(traces.length, 32)
    traces.length = putHex(tracesView, traces.length + 1, body, offset, 16)
  }

  function putEnvelopes(batch: SpanBatch, i: number, row: number): void {
    const its = resource(batch, i)
    const itsScope = scope(batch, i)
    if (its !== ownResource || itsScope !== ownScope) {
      resourceNumber = numberOf((ownResource = its), resourceNumbers, segment.resources, batch)
      scopeNumber = numberOf((ownScope = itsScope), scopeNumbers, segment.scopes, batch)
      sharedSize = its.bytes.length + itsScope.bytes.length
    }
    segment.resourceOf[row] = resourceNumber
    segment.scopeOf[row] = scopeNumber
  }

  function numberOf(envelope: Envelope, numbers: Map<Envelope, number>, known: Envelope[], { body }: SpanBatch): number {
    let number = numbers.get(envelope)
    if (number === undefined) numbers.set(envelope, (number = known.push(detachedFrom(body, envelope)) - 1))
    return number
  }

  function numberOfHint(hint: string): number {
    let number = hints.get(hint)
    if (number === undefined) hints.set(hint, (number = hints.size))
    return number
  }

  function putPayload(body: Buffer, from: number, end: number, row: number): void {
    const to = writeVarint(bytes, segment.length, end - from)
    copyBytes(body, from, end, bytes, to)
    segment.starts[row] = to
    segment.length = segment.ends[row] = to + end - from
  }

  function parts(): Buffer[] {
    const { count, length, signals, resources, resourceOf, scopes, scopeOf } = segment
    const rows = count - first
    if (rows === 0) return []
    const ownResources = resources.slice(firstResource)
    const ownScopes = scopes.slice(firstScope)
    const services = ownResources.map(({ attributes }) => textOf(attributes['service.name']))
    const itsResource = { from: first, to: count, first: firstResource }
    const itsScope = { from: first, to: count, first: firstScope }
    const { out } = columns
    out.length = 0
    putBlockHead(out, NAMES.length, rows)
    // In the order of TYPES.
    putRaw(out, HEADS.received_at)
    putSame(out, receivedAt, rows)
    putRaw(out, HEADS.signal)
    putRaw(out, bytesOf(signals), first, count)
    putRaw(out, HEADS.service)
    putLowCardinality(out, services, putString, resourceOf, itsResource)
    putRaw(out, HEADS.resource)
    putLowCardinality(out, ownResources, putEnvelope, resourceOf, itsResource)
    putRaw(out, HEADS.scope)
    putLowCardinality(out, ownScopes, putEnvelope, scopeOf, itsScope)
    putRaw(out, HEADS.rollout_hint)
    putLowCardinality(out, [...hints.keys()], putString, hintOf, { from: 0, to: rows, first: 0 })
    putColumn(out, HEADS.trace_id, traces.bytes, traces.length)
    putColumn(out, HEADS.start_time, bytesOf(starts), 8 * rows)
    putColumn(out, HEADS.span_id, bytesOf(spans), 16 * rows)
    putColumn(out, HEADS.parent_span_id, bytesOf(parents), 16 * rows)
    putColumn(out, HEADS.name, names.bytes, names.length)
    putColumn(out, HEADS.kind, kinds, rows)
    putColumn(out, HEADS.status, statuses, rows)
    putColumn(out, HEADS.duration, bytesOf(durations), 8 * rows)
    putColumn(out, HEADS.position, POSITIONS, 4 * rows)
    putColumn(out, HEADS.response_id, responses.bytes, responses.length)
    putRaw(out, HEADS.payload)
    return [written(out), bytes.subarray(start, length)]
  }

  return { put, parts, release: () => void free.push(columns) }
}

/** What the columns of a fixed size take of a row. */
const FIXED = 64

/** In memory of its own: larger ones are parts of the request. */
const detachedFrom = (body: Buffer, envelope: Envelope): Envelope =>
  envelope.bytes.buffer === body.buffer ? { ...envelope, bytes: Buffer.from(envelope.bytes) } : envelope

/** Where each row stands among its block's. */
const POSITIONS = bytesOf(Uint32Array.from({ length: SEGMENT_ROWS }, (_, row) => row))

type Name = keyof typeof TYPES
const NAMES = Object.keys(TYPES) as Name[]
const HEADS = Object.fromEntries(NAMES.map((name) => [name, columnHead(name, TYPES[name])])) as Record<Name, Buffer>

/** A column of which so many bytes are written. */
function putColumn(out: Rows, head: Buffer, bytes: Buffer, size: number): void {
  putRaw(out, head)
  putRaw(out, bytes, 0, size)
}

const putEnvelope = (rows: Rows, { bytes }: Envelope): void => putBytes(rows, bytes)

/** @param slot where the attribute stands, or 0 */
function putResponseId(rows: Rows, batch: SpanBatch, i: number, slot: number): void {
  if (slot === 0) putUInt8(rows, 0)
  else if (isPlainAscii(batch.body, slot)) putBytes(rows, batch.body, plain.start, plain.end)
  else putString(rows, textOf(attribute(batch, i, RESPONSE_ID)))
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** An enum's number that ClickHouse does not know would refuse the whole insert. */
const atMost = (value: number, last: number): number => (value >= 0 && value <= last ? value : 0)

/** Zeros where there is no id: as a String, of which zeros at the end are none, that is empty. */
function putId(units: Uint16Array, at: number, source: Buffer, offset: number): void {
  if (offset !== 0) putSpanId(units, at, source, offset)
  else for (let i = at; i < at + 8; i++) units[i] = 0
}

/** Fixed64 nanoseconds are a DateTime64(9)'s ticks, up to the year 2262. */
function putTime(words: Int32Array, at: number, source: Buffer, offset: number): void {
  if (offset === 0) return putWords(words, at, 0, 0)
  const high = word(source, offset + 4)
  if (high < 0) putWords(words, at, -1, LARGEST)
  else putWords(words, at, word(source, offset), high)
}

/** 0 where the span says no start (a start of 0 is none), was not ended, or ended before it began. */
function putDuration(words: Int32Array, at: number, source: Buffer, start: number, end: number): void {
  if (start === 0 || end === 0 || isBefore(source, end, start)) return putWords(words, at, 0, 0)
  const low = word(source, end)
  const startLow = word(source, start)
  const startHigh = word(source, start + 4)
  if ((startLow | startHigh) === 0) return putWords(words, at, 0, 0)
  const borrowed = lessThan(low, startLow) ? 1 : 0
  putWords(words, at, (low - startLow) | 0, (word(source, end + 4) - startHigh - borrowed) | 0)
}

/** A 64-bit integer of two words. */
function putWords(words: Int32Array, at: number, low: number, high: number): void {
  words[at] = low
  words[at + 1] = high
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
