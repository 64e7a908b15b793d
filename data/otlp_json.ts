// OTLP as JSON, both ways, driven by the tables of otlp_messages.ts. The rules that differ from
// ordinary proto3 JSON: ids are hex, enums are integers only, names are lowerCamelCase only.

import { MAX_DEPTH } from './check.ts'
import {
  ExportLogsServiceRequest,
  ExportTraceServiceRequest,
  InstrumentationScope,
  LogRecord,
  Resource,
  Span,
  type Field,
  type Message,
  type Scalar,
} from './otlp_messages.ts'
import { payload, resource, scope, type Envelope, type SpanBatch } from './span_batch.ts'
import {
  fixed,
  int32,
  int64,
  Malformed,
  open,
  prependBytes,
  prependDouble,
  prependFixed32,
  prependFixed64,
  prependInt64,
  prependText,
  prependVarint,
  size,
  skip,
  tag,
  varint,
  writer,
  written,
  type Cursor,
  type Writer,
} from './wire.ts'

type Json = Record<string, unknown>

/** An export request as protobuf. Throws Malformed, naming the place, where the document is none. */
export function fromJson(signal: 'traces' | 'logs', document: unknown): Buffer {
  return encode(signal === 'traces' ? ExportTraceServiceRequest : ExportLogsServiceRequest, document)
}

/** The items of a batch as an export request, grouped as they came. */
export function toJson(batch: SpanBatch): Json {
  const [item, scopeItems, resourceItems, items] =
    batch.signal === 'traces' ? [Span, 'scopeSpans', 'resourceSpans', 'spans'] : [LogRecord, 'scopeLogs', 'resourceLogs', 'logRecords']
  const resources: Record<string, any>[] = []
  let lastResource: Envelope | undefined
  let lastScope: Envelope | undefined
  for (let i = 0; i < batch.count; i++) {
    const ofResource = resource(batch, i)
    const ofScope = scope(batch, i)
    if (ofResource !== lastResource) {
      resources.push({ resource: decode(Resource, ofResource.bytes), ...schema(ofResource), [scopeItems]: [] })
      // The next resource may have the same scope.
      lastScope = undefined
    }
    const scopes = resources.at(-1)![scopeItems] as Record<string, any>[]
    if (ofScope !== lastScope) scopes.push({ scope: decode(InstrumentationScope, ofScope.bytes), ...schema(ofScope), [items]: [] })
    scopes.at(-1)![items].push(decode(item, payload(batch, i)))
    lastResource = ofResource
    lastScope = ofScope
  }
  return { [resourceItems]: resources }
}

const schema = ({ schema_url }: Envelope) => (schema_url === '' ? {} : { schemaUrl: schema_url })

/** Any message of otlp_messages.ts from its JSON form. */
export function encode(message: Message, document: unknown): Buffer {
  const w = writer()
  writeMessage(w, message, document, [], 0)
  return written(w)
}

type Path = (string | number)[]

/** Deeper than scan() accepts, which counts from the span on: what is cut here is refused there, and only that span. */
const CUT = MAX_DEPTH + 8

/** Backwards, as the writer fills from its end: the length of a message is known when it is written. */
function writeMessage(w: Writer, { fields, oneof }: Message, value: unknown, path: Path, depth: number): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(path, 'an object', value)
  const members = value as Readonly<Record<string, unknown>>
  let set = 0
  for (let i = fields.length - 1; i >= 0; i--) {
    const field = fields[i]!
    const member = members[field.name]
    if (member === undefined || member === null) continue
    if (oneof && ++set > 1) throw new Malformed('holds more than one value', inWords(path))
    path.push(field.name)
    if (!field.repeated) writeField(w, field, member, path, depth)
    else if (Array.isArray(member)) writeList(w, field, member, path, depth)
    else throw wrong(path, 'an array', member)
    path.pop()
  }
}

function writeList(w: Writer, field: Field, list: readonly unknown[], path: Path, depth: number): void {
  for (let i = list.length - 1; i >= 0; i--) {
    path.push(i)
    writeField(w, field, list[i], path, depth)
    path.pop()
  }
}

function writeField(w: Writer, { number, type }: Field, value: unknown, path: Path, depth: number): void {
  if (typeof type === 'string') writeScalar(w, type, value, path)
  else {
    const before = size(w)
    if (depth < CUT) writeMessage(w, type, value, path, depth + 1)
    prependVarint(w, size(w) - before)
  }
  prependVarint(w, tagOf(number, type))
}

const tagOf = (number: number, type: Scalar | Message) => number * 8 + (typeof type === 'string' ? WIRE_TYPE[type] : LENGTH)

const LENGTH = 2
const WIRE_TYPE: Readonly<Record<Scalar, number>> = {
  string: LENGTH,
  bytes: LENGTH,
  trace_id: LENGTH,
  span_id: LENGTH,
  bool: 0,
  int64: 0,
  uint32: 0,
  enum: 0,
  double: 1,
  fixed64: 1,
  fixed32: 5,
}

function writeScalar(w: Writer, type: Scalar, value: unknown, path: Path): void {
  switch (type) {
    case 'string':
      if (typeof value !== 'string') throw wrong(path, 'a string', value)
      return prependText(w, value)
    case 'bool':
      if (typeof value !== 'boolean') throw wrong(path, 'true or false', value)
      return prependVarint(w, value ? 1 : 0)
    case 'enum':
      if (!Number.isInteger(value)) throw wrong(path, 'an integer, enum names are not allowed', value)
      return prependInt64(w, integer(value, -(2n ** 31n), 2n ** 31n - 1n, path))
    case 'int64':
      return prependInt64(w, integer(value, -(2n ** 63n), 2n ** 63n - 1n, path))
    case 'uint32':
      return prependVarint(w, Number(integer(value, 0n, 2n ** 32n - 1n, path)))
    case 'fixed32':
      return prependFixed32(w, Number(integer(value, 0n, 2n ** 32n - 1n, path)))
    case 'fixed64':
      return prependFixed64(w, integer(value, 0n, 2n ** 64n - 1n, path))
    case 'double':
      return prependDouble(w, double(value, path))
    case 'bytes':
      return prependBytes(w, base64(value, path))
    case 'trace_id':
    case 'span_id':
      return prependBytes(w, hex(value, path))
  }
}

function integer(value: unknown, min: bigint, max: bigint, path: Path): bigint {
  const whole = typeof value === 'number' ? Number.isInteger(value) : typeof value === 'string' && /^-?\d{1,20}$/.test(value)
  const exact = whole ? BigInt(value as number | string) : undefined
  if (exact === undefined || exact < min || exact > max) throw wrong(path, `an integer from ${min} to ${max}`, value)
  return exact
}

function double(value: unknown, path: Path): number {
  if (typeof value === 'number') return value
  if (typeof value === 'string' && /^(NaN|-?Infinity|-?\d+(\.\d+)?([eE][+-]?\d+)?)$/.test(value)) return Number(value)
  throw wrong(path, 'a number, "NaN", "Infinity" or "-Infinity"', value)
}

function base64(value: unknown, path: Path): Buffer {
  if (typeof value !== 'string' || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(value)) throw wrong(path, 'base64', value)
  return Buffer.from(value, 'base64')
}

/** Text that is not hex becomes an id of a length that no id has: scan() then refuses that span alone. */
function hex(value: unknown, path: Path): Buffer {
  if (typeof value !== 'string') throw wrong(path, 'a string of hex digits', value)
  return value.length % 2 === 0 && /^[0-9a-fA-F]*$/.test(value) ? Buffer.from(value, 'hex') : NOT_HEX
}
const NOT_HEX = Buffer.of(0)

const wrong = (path: Path, expected: string, value: unknown) => new Malformed(`must be ${expected} (got ${shown(value)})`, inWords(path))

/** Lists and objects may be of any depth, so they are not written out. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(value).slice(0, 80)
}

const inWords = (path: Path) =>
  path
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1)

/** Any message of otlp_messages.ts in its JSON form. `bytes` may lack fields and have others, but must be protobuf. */
export function decode(message: Message, bytes: Buffer): Json {
  return readMessage({ bytes, pos: 0 }, bytes.length, message, {})
}

/** Into what an earlier part of the same message said. */
function readMessage(c: Cursor, end: number, { fields, oneof }: Message, into: Json): Json {
  while (c.pos < end) {
    const fieldTag = tag(c, end)
    const field = fields.find(({ number, type }) => tagOf(number, type) === fieldTag)
    if (!field) {
      skip(c, fieldTag, end)
      continue
    }
    const { name, type, repeated } = field
    const before = into[name]
    if (oneof) for (const other of Object.keys(into)) delete into[other]
    into[name] = repeated ? append(before, readField(c, end, type, {})) : readField(c, end, type, (before ?? {}) as Json)
  }
  return into
}

const readField = (c: Cursor, end: number, type: Scalar | Message, before: Json): unknown =>
  typeof type === 'string' ? readScalar(c, end, type) : readMessage(c, open(c, end), type, before)

const append = (list: unknown, item: unknown): unknown[] => {
  if (!Array.isArray(list)) return [item]
  list.push(item)
  return list
}

function readScalar(c: Cursor, end: number, type: Scalar): unknown {
  switch (type) {
    case 'string':
      return slice(c, end).toString('utf8')
    case 'bool':
      return varint(c, end) !== 0
    case 'enum':
      return int32(c, end)
    case 'int64':
      return String(int64(c, end))
    case 'uint32':
      return int32(c, end) >>> 0
    case 'fixed32':
      return c.bytes.readUInt32LE(fixed(c, 4, end))
    case 'fixed64':
      return String(c.bytes.readBigUInt64LE(fixed(c, 8, end)))
    case 'double': {
      const value = c.bytes.readDoubleLE(fixed(c, 8, end))
      return Number.isFinite(value) ? value : String(value)
    }
    case 'bytes':
      return slice(c, end).toString('base64')
    case 'trace_id':
      return validId(slice(c, end), 16)
    case 'span_id':
      return validId(slice(c, end), 8)
  }
}

function slice(c: Cursor, end: number): Buffer {
  const sliceEnd = open(c, end)
  const bytes = c.bytes.subarray(c.pos, sliceEnd)
  c.pos = sliceEnd
  return bytes
}

/** An id of another length, or all zero, is no id: left out. */
const validId = (bytes: Buffer, size: number) =>
  bytes.length === size && bytes.some((byte) => byte !== 0) ? bytes.toString('hex') : undefined
