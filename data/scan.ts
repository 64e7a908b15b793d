// From the bytes of an OTLP request to a SpanBatch: one pass, no object per span. Every byte is
// checked on the way, down to the last nested value, so that what was accepted can always be read.

import { isUtf8 } from 'node:buffer'

import { readEnvelope } from './read.ts'
import { COLUMN, STRIDE, type Envelope, type SpanBatch } from './span_batch.ts'
import { fixed, int32, Malformed, MAX_DEPTH, open, skip, tag, type Cursor } from './wire.ts'

export { Malformed } from './wire.ts'
export { attribute, readItem, readLog, readSpan } from './read.ts'
export { endTime, isRoot, itemName, parentSpanId, payload, resource, scope, spanId, startTime, traceId } from './span_batch.ts'

/** The attributes that say where an item belongs: what the rollouts connector asks of every batch. */
export const ROUTING_KEYS = [
  'agentlightning.rollout_id',
  'agentlightning.attempt_id',
  'agentlightning.span_sequence_id',
  'leyden.rollout.id',
  'leyden.attempt.id',
  'leyden.task.id',
  'leyden.group.id',
  'leyden.group.size',
  'leyden.mode',
  'leyden.rollout.status',
  'session.id',
  'gen_ai.conversation.id',
  'gen_ai.response.id',
  'event.name',
] as const

/** Items in one request. Far above any exporter's batch; it bounds what a body of empty items costs. */
export const MAX_ITEMS = 1 << 20
/** So many rejected items get a reason that names them; the rest share one per cause. */
const NAMED = 20

export interface Scanned {
  readonly batch: SpanBatch
  /** Spans that could not be accepted although the request could be read. */
  readonly rejected: readonly Rejected[]
}
export interface Rejected {
  readonly reason: string
}

/** Reads an export request. Throws Malformed when the bytes are no such request; `body` is kept, not copied. */
export function scan(signal: 'traces' | 'logs', body: Buffer, keys: readonly string[] = ROUTING_KEYS): Scanned {
  const s: Scan = {
    c: { bytes: body, pos: 0 },
    signal,
    keys: keyTable(keys),
    columns: scratchColumns,
    slots: scratchSlots,
    count: 0,
    tooDeep: false,
    resources: [],
    scopes: [],
    rejected: [],
  }
  while (s.c.pos < body.length) {
    const field = tag(s.c, body.length)
    if (field === 10) resourceItems(s, open(s.c, body.length))
    else skip(s.c, field, body.length)
  }
  keepScratch(s)
  const { count, resources, scopes, rejected } = s
  const columns = s.columns.slice(0, count * STRIDE)
  const slots = s.slots.slice(0, count * keys.length)
  return { batch: { signal, body, count, columns, slots, keys, resources, scopes }, rejected }
}

interface Scan {
  readonly c: Cursor
  readonly signal: 'traces' | 'logs'
  readonly keys: KeyTable
  columns: Int32Array
  slots: Int32Array
  count: number
  /** The item being read holds a value nested deeper than MAX_DEPTH. */
  tooDeep: boolean
  readonly resources: Envelope[]
  readonly scopes: Envelope[]
  readonly rejected: Rejected[]
}

/** ResourceSpans or ResourceLogs. The resource may come after its spans, and in parts. */
function resourceItems(s: Scan, end: number): void {
  const { c } = s
  const before = s.count
  let own: Buffer | null = null
  let schemaUrl = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 10) own = joined(own, submessage(c, end, RESOURCE))
    else if (field === 18) scopeItems(s, open(c, end))
    else if (field === 26) schemaUrl = text(c, end)
    else skip(c, field, end)
  }
  if (s.count > before) s.resources.push(readEnvelope('resource', own ?? NOTHING, schemaUrl))
}

/** ScopeSpans or ScopeLogs. */
function scopeItems(s: Scan, end: number): void {
  const { c } = s
  const before = s.count
  const readItem = s.signal === 'traces' ? span : logRecord
  let own: Buffer | null = null
  let schemaUrl = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 18) readItem(s, open(c, end))
    else if (field === 10) own = joined(own, submessage(c, end, SCOPE))
    else if (field === 26) schemaUrl = text(c, end)
    else skip(c, field, end)
  }
  if (s.count > before) s.scopes.push(readEnvelope('scope', own ?? NOTHING, schemaUrl))
}

function span(s: Scan, end: number): void {
  const { c } = s
  const at = newItem(s, end)
  const { columns } = s
  let problem = ''
  let parent = 0
  while (c.pos < end) {
    const field = tag(c, end)
    switch (field) {
      case 74:
        attributeField(s, end)
        break
      case 10:
        columns[at + COLUMN.trace_id] = id(c, end, 16)
        break
      case 18:
        columns[at + COLUMN.span_id] = id(c, end, 8)
        break
      case 34:
        parent = id(c, end, 8)
        break
      case 42:
        name(c, end, columns, at)
        break
      case 48:
        columns[at + COLUMN.kind] = int32(c, end)
        break
      case 57:
        columns[at + COLUMN.start_time] = fixed(c, 8, end)
        break
      case 65:
        columns[at + COLUMN.end_time] = fixed(c, 8, end)
        break
      case 122:
        status(c, open(c, end), columns, at)
        break
      case 133: {
        const flags = fixed(c, 4, end)
        columns[at + COLUMN.flags] = c.bytes.readUInt32LE(flags)
        break
      }
      case 90:
        walk(s, open(c, end), EVENT, 0)
        break
      case 106:
        walk(s, open(c, end), LINK, 0)
        break
      default:
        skip(c, field, end)
    }
  }
  if (columns[at + COLUMN.trace_id]! <= 0) problem = 'trace_id must be 16 bytes (32 hex digits in JSON), not all zero'
  else if (columns[at + COLUMN.span_id]! <= 0) problem = 'span_id must be 8 bytes (16 hex digits in JSON), not all zero'
  else if (parent === WRONG) problem = 'parent_span_id must be 8 bytes (16 hex digits in JSON), or empty'
  else columns[at + COLUMN.parent_span_id] = Math.max(parent, 0)
  accept(s, at, problem)
}

function logRecord(s: Scan, end: number): void {
  const { c } = s
  const at = newItem(s, end)
  const { columns } = s
  let observed = 0
  while (c.pos < end) {
    const field = tag(c, end)
    switch (field) {
      case 50:
        attributeField(s, end)
        break
      case 42:
        walk(s, open(c, end), ANY_VALUE, 0)
        break
      case 9:
        columns[at + COLUMN.start_time] = fixed(c, 8, end)
        break
      case 89:
        observed = fixed(c, 8, end)
        break
      case 74:
        columns[at + COLUMN.trace_id] = Math.max(id(c, end, 16), 0)
        break
      case 82:
        columns[at + COLUMN.span_id] = Math.max(id(c, end, 8), 0)
        break
      case 98:
        name(c, end, columns, at)
        break
      default:
        skip(c, field, end)
    }
  }
  const time = columns[at + COLUMN.start_time]!
  if (time === 0 || isZero(c.bytes, time, 8)) columns[at + COLUMN.start_time] = observed
  if (columns[at + COLUMN.name_length] === 0) eventName(s, at)
  accept(s, at, '')
}

/** Older SDKs send the event's name as an attribute. Of several values in it the last counts, and only text is a name. */
function eventName(s: Scan, at: number): void {
  const slot = s.keys.eventName < 0 ? 0 : s.slots[s.count * s.keys.size + s.keys.eventName]!
  if (slot === 0) return
  const { columns } = s
  const { bytes } = s.c
  const c: Cursor = { bytes, pos: slot }
  const end = open(c, bytes.length)
  while (c.pos < end) {
    const field = tag(c, end)
    if (field !== VALUE) {
      skip(c, field, end)
      continue
    }
    const valueEnd = open(c, end)
    while (c.pos < valueEnd) {
      const member = tag(c, valueEnd)
      if (member === TEXT_VALUE) name(c, valueEnd, columns, at)
      else {
        skip(c, member, valueEnd)
        if (OTHER_VALUES.includes(member)) columns[at + COLUMN.name_length] = 0
      }
    }
  }
  const start = columns[at + COLUMN.name]!
  if (!isText(bytes, start, start + columns[at + COLUMN.name_length]!)) columns[at + COLUMN.name_length] = 0
}

const VALUE = 18
const TEXT_VALUE = 10
/** Tags of the members of an AnyValue that are not text. */
const OTHER_VALUES = [16, 24, 33, 42, 50, 58]

/** Makes room for one more item and returns where its columns begin. */
function newItem(s: Scan, end: number): number {
  if (s.count + s.rejected.length === MAX_ITEMS) throw new Malformed(`more than ${MAX_ITEMS} items in one request`)
  const at = s.count * STRIDE
  const slot = s.count * s.keys.size
  if (at + STRIDE > s.columns.length) s.columns = twice(s.columns)
  while (slot + s.keys.size > s.slots.length) s.slots = twice(s.slots)
  s.columns.fill(0, at, at + STRIDE)
  s.slots.fill(0, slot, slot + s.keys.size)
  s.columns[at + COLUMN.start] = s.c.pos
  s.columns[at + COLUMN.end] = end
  // Pushed only if an item of theirs is accepted: a body of empty envelopes must cost nothing.
  s.columns[at + COLUMN.resource] = s.resources.length
  s.columns[at + COLUMN.scope] = s.scopes.length
  s.tooDeep = false
  return at
}

function accept(s: Scan, at: number, problem: string): void {
  const { bytes } = s.c
  const start = s.columns[at + COLUMN.name]!
  const end = start + s.columns[at + COLUMN.name_length]!
  if (problem === '' && s.tooDeep) problem = `a value is nested deeper than ${MAX_DEPTH} messages`
  // Attribute values are repaired when they are read; the name goes to a column as it is.
  else if (problem === '' && !isText(bytes, start, end)) problem = 'the name is not UTF-8'
  if (problem === '') {
    s.count++
    return
  }
  const number = s.count + s.rejected.length + 1
  const item = s.signal === 'traces' ? 'span' : 'log record'
  s.rejected.push(s.rejected.length < NAMED ? { reason: `${item} ${number} (${named(bytes, start, end)}): ${problem}` } : unnamed(problem))
}

const named = (bytes: Buffer, start: number, end: number) => JSON.stringify(bytes.toString('utf8', start, Math.min(end, start + 80)))

const reasons = new Map<string, Rejected>()
function unnamed(problem: string): Rejected {
  const known = reasons.get(problem) ?? { reason: problem }
  reasons.set(problem, known)
  return known
}

/** One KeyValue of the item; remembered when its key is one of those looked for. A later one of the same key counts. */
function attributeField(s: Scan, end: number): void {
  const { c } = s
  const slot = c.pos
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
    } else if (field === 18) walk(s, open(c, valueEnd), ANY_VALUE, 0)
    else skip(c, field, valueEnd)
  }
  const found = find(s.keys, c.bytes, key, keyLength)
  if (found >= 0) s.slots[s.count * s.keys.size + found] = slot
}

function status(c: Cursor, end: number, columns: Int32Array, at: number): void {
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 24) columns[at + COLUMN.status] = int32(c, end)
    else skip(c, field, end)
  }
}

function name(c: Cursor, end: number, columns: Int32Array, at: number): void {
  const nameEnd = open(c, end)
  columns[at + COLUMN.name] = c.pos
  columns[at + COLUMN.name_length] = nameEnd - c.pos
  c.pos = nameEnd
}

const WRONG = -1

/** Offset of an id, 0 where it is empty or all zero, WRONG where its length is. */
function id(c: Cursor, end: number, size: number): number {
  const idEnd = open(c, end)
  const start = c.pos
  c.pos = idEnd
  if (idEnd - start !== size) return idEnd === start ? 0 : WRONG
  return isZero(c.bytes, start, size) ? 0 : start
}

function isZero(bytes: Buffer, start: number, size: number): boolean {
  for (let i = start; i < start + size; i++) if (bytes[i] !== 0) return false
  return true
}

function isText(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i]! >= 128) return isUtf8(bytes.subarray(start, end))
  return true
}

function text(c: Cursor, end: number): string {
  const textEnd = open(c, end)
  const start = c.pos
  c.pos = textEnd
  return c.bytes.toString('utf8', start, textEnd)
}

const NOTHING = Buffer.alloc(0)

/** A message sent in parts is their concatenation: that is how protobuf merges. */
const joined = (first: Buffer | null, next: Buffer) => (first === null ? next : Buffer.concat([first, next]))

/** The bytes of a resource or scope, checked. */
function submessage(c: Cursor, end: number, shape: Shape): Buffer {
  const valueEnd = open(c, end)
  const start = c.pos
  const s = { c, tooDeep: false }
  walk(s, valueEnd, shape, 0)
  if (s.tooDeep) throw new Malformed(`a value is nested deeper than ${MAX_DEPTH} messages before byte ${valueEnd}`)
  return c.bytes.subarray(start, valueEnd)
}

/** The message fields of a message, by tag. All other fields are checked by being skipped. */
type Shape = (Shape | undefined)[]

const ANY_VALUE: Shape = []
const KEY_VALUE: Shape = []
const ARRAY: Shape = []
const KEY_VALUE_LIST: Shape = []
KEY_VALUE[18] = ANY_VALUE
ANY_VALUE[42] = ARRAY
ANY_VALUE[50] = KEY_VALUE_LIST
ARRAY[10] = ANY_VALUE
KEY_VALUE_LIST[10] = KEY_VALUE
const EVENT: Shape = []
EVENT[26] = KEY_VALUE
const LINK: Shape = []
LINK[34] = KEY_VALUE
const SCOPE: Shape = []
SCOPE[26] = KEY_VALUE
const RESOURCE: Shape = []
RESOURCE[10] = KEY_VALUE
RESOURCE[26] = [] // EntityRef

/** Checks a message down to its last value. */
function walk(s: { readonly c: Cursor; tooDeep: boolean }, end: number, shape: Shape, depth: number): void {
  const { c } = s
  if (depth > MAX_DEPTH) {
    s.tooDeep = true
    c.pos = end
    return
  }
  while (c.pos < end) {
    if (shape === ARRAY && integerItem(c, end)) continue
    const field = tag(c, end)
    const inner = field < 128 ? shape[field] : undefined
    if (inner === undefined) skip(c, field, end)
    else walk(s, open(c, end), inner, depth + 1)
  }
}

/** Token ids: one integer an item, a thousand items a span. Passes over such an item, or leaves any other alone. */
function integerItem(c: Cursor, end: number): boolean {
  const { bytes, pos } = c
  const length = bytes[pos + 1]! // of the AnyValue: a tag and a varint
  const itemEnd = pos + 2 + length
  if (bytes[pos] !== 10 || bytes[pos + 2] !== 24 || length < 2 || length > 11 || itemEnd > end) return false
  let last = pos + 3
  while (last < itemEnd && bytes[last]! >= 128) last++
  if (last !== itemEnd - 1) return false
  c.pos = itemEnd
  return true
}

/** The keys looked for, hashed by length and two of their bytes. */
interface KeyTable {
  readonly size: number
  readonly bytes: readonly Buffer[]
  /** First key of each hash, and the next of the same hash; -1 for none. */
  readonly first: Int16Array
  readonly next: Int16Array
  /** Where `event.name` is among the keys, or -1. */
  readonly eventName: number
}

const tables = new WeakMap<readonly string[], KeyTable>()

function keyTable(keys: readonly string[]): KeyTable {
  const known = tables.get(keys)
  if (known) return known
  const bytes = keys.map((key) => Buffer.from(key))
  const first = new Int16Array(256).fill(-1)
  const next = new Int16Array(keys.length).fill(-1)
  bytes.forEach((key, i) => {
    const h = hash(key, 0, key.length)
    next[i] = first[h]!
    first[h] = i
  })
  const table = { size: keys.length, bytes, first, next, eventName: keys.indexOf('event.name') }
  tables.set(keys, table)
  return table
}

const hash = (bytes: Buffer, start: number, length: number) =>
  length === 0 ? 0 : (length * 7 + bytes[start + length - 1]! * 31 + bytes[start + (length >> 1)]! * 17) & 255

function find({ first, next, bytes: keys }: KeyTable, bytes: Buffer, start: number, length: number): number {
  for (let i = first[hash(bytes, start, length)]!; i >= 0; i = next[i]!) {
    const key = keys[i]!
    if (key.length !== length) continue
    let at = length - 1
    while (at >= 0 && bytes[start + at] === key[at]) at--
    if (at < 0) return i
  }
  return -1
}

// Columns are filled here and copied out at their true size. Scans do not overlap.
const SMALL = 1 << 12
const LARGE = 1 << 20
let scratchColumns: Int32Array = new Int32Array(SMALL)
let scratchSlots: Int32Array = new Int32Array(SMALL)

function keepScratch({ columns, slots }: Scan): void {
  if (columns.length <= LARGE) scratchColumns = columns
  if (slots.length <= LARGE) scratchSlots = slots
}

function twice(array: Int32Array): Int32Array {
  const larger = new Int32Array(array.length * 2)
  larger.set(array)
  return larger
}
