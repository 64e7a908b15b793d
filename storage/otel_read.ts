// Rows of an otel_traces table as an OTLP request, from the bytes of ClickHouse's answer to the bytes of protobuf. Values of attributes
// come back as the text that the Collector made of them.

import {
  fixed,
  Malformed,
  open,
  prependBytes,
  prependFixed64,
  prependVarint,
  size,
  varint,
  writer,
  written,
  type Cursor,
  type Writer,
} from '../data/wire.ts'
import type { Forms } from './otel_query.ts'

/** Key, value, key, value. */
type Attributes = readonly Buffer[]

interface Group {
  readonly resource: Attributes
  readonly scope: string
  readonly version: string
  readonly spans: Buffer[]
}

/** The rows that are whole among the bytes, as an ExportTraceServiceRequest, and how many of the bytes they are. */
export function requestFrom(bytes: Buffer, forms: Forms): { request: Buffer; used: number } {
  const c = { bytes, pos: 0 }
  const groups = new Map<string, Group>()
  let used = 0
  try {
    while (c.pos < bytes.length) {
      const resource = attributes(c, forms.resource)
      const [scope, version] = [text(c), text(c)]
      const key = bytes.toString('latin1', used, c.pos)
      const span = spanOf(c, forms)
      const group = groups.get(key)
      if (group) group.spans.push(span)
      else groups.set(key, { resource, scope: scope.toString(), version: version.toString(), spans: [span] })
      used = c.pos
    }
  } catch (error) {
    // The last row has only begun.
    if (!(error instanceof Malformed)) throw error
  }
  return { request: requestOf([...groups.values()]), used }
}

function requestOf(groups: readonly Group[]): Buffer {
  const w = writer()
  for (const { resource, scope, version, spans } of groups.toReversed()) {
    nested(w, 10, () => {
      nested(w, 18, () => {
        for (const span of spans.toReversed()) put(w, 18, span)
        nested(w, 10, () => {
          put(w, 18, Buffer.from(version))
          put(w, 10, Buffer.from(scope))
        })
      })
      nested(w, 10, () => putAttributes(w, 10, resource))
    })
  }
  return written(w)
}

/** The rest of a row, as a Span. Read forwards, written backwards, for that is how lengths are known in time. */
function spanOf(c: Cursor, forms: Forms): Buffer {
  const [traceId, spanId, parent, state, name] = [text(c), text(c), text(c), text(c), text(c)]
  const kind = byte(c)
  const [start, duration] = [int64(c), int64(c)]
  const status = byte(c)
  const message = text(c)
  const own = attributes(c, forms.span)
  const [eventTimes, eventNames] = [list(c, int64), list(c, text)]
  const eventAttributes = list(c, () => attributes(c, forms.event))
  const [linkTraces, linkSpans, linkStates] = [list(c, text), list(c, text), list(c, text)]
  const linkAttributes = list(c, () => attributes(c, forms.link))

  const w = writer()
  nested(w, 122, () => {
    putNumber(w, 24, status)
    put(w, 18, message)
  })
  for (let i = linkTraces.length - 1; i >= 0; i--) {
    nested(w, 106, () => {
      putAttributes(w, 34, linkAttributes[i])
      put(w, 26, linkStates[i])
      put(w, 18, linkSpans[i])
      put(w, 10, linkTraces[i])
    })
  }
  for (let i = eventTimes.length - 1; i >= 0; i--) {
    nested(w, 90, () => {
      putAttributes(w, 26, eventAttributes[i])
      put(w, 18, eventNames[i])
      putTime(w, 9, eventTimes[i]!)
    })
  }
  putAttributes(w, 74, own)
  putTime(w, 65, start + duration)
  putTime(w, 57, start)
  putNumber(w, 48, kind)
  put(w, 42, name)
  put(w, 34, parent)
  put(w, 26, state)
  put(w, 18, spanId)
  put(w, 10, traceId)
  return written(w)
}

const byte = (c: Cursor): number => {
  if (c.pos >= c.bytes.length) throw new Malformed('the answer is cut short')
  return c.bytes[c.pos++]!
}
const int64 = (c: Cursor): bigint => c.bytes.readBigInt64LE(fixed(c, 8, c.bytes.length))

function text(c: Cursor): Buffer {
  const end = open(c, c.bytes.length)
  const start = c.pos
  c.pos = end
  return c.bytes.subarray(start, end)
}

function list<T>(c: Cursor, item: (c: Cursor) => T): T[] {
  const items: T[] = []
  for (let left = varint(c, c.bytes.length); left > 0; left--) items.push(item(c))
  return items
}

function attributes(c: Cursor, form: 'map' | 'json'): Attributes {
  if (form === 'json') return flattened(JSON.parse(text(c).toString() || '{}') as object, '')
  const pairs: Buffer[] = []
  for (let left = varint(c, c.bytes.length); left > 0; left--) pairs.push(text(c), text(c))
  return pairs
}

/** A JSON column makes objects of keys with dots. */
function flattened(value: object, prefix: string): Buffer[] {
  return Object.entries(value).flatMap(([name, member]: [string, unknown]) => {
    if (member === null) return []
    if (typeof member === 'object' && !Array.isArray(member)) return flattened(member, `${prefix}${name}.`)
    return [Buffer.from(prefix + name), Buffer.from(typeof member === 'string' ? member : JSON.stringify(member))]
  })
}

/** A message made of what `fill` writes. */
function nested(w: Writer, tag: number, fill: () => void): void {
  const before = size(w)
  fill()
  prependVarint(w, size(w) - before)
  prependVarint(w, tag)
}

function put(w: Writer, tag: number, value: Buffer | undefined): void {
  if (!value || value.length === 0) return
  prependBytes(w, value)
  prependVarint(w, tag)
}

function putNumber(w: Writer, tag: number, value: number): void {
  prependVarint(w, value)
  prependVarint(w, tag)
}

function putTime(w: Writer, tag: number, nanoseconds: bigint): void {
  prependFixed64(w, BigInt.asUintN(64, nanoseconds))
  prependVarint(w, tag)
}

function putAttributes(w: Writer, tag: number, pairs: Attributes = []): void {
  for (let i = pairs.length - 2; i >= 0; i -= 2) {
    nested(w, tag, () => {
      nested(w, 18, () => {
        prependBytes(w, pairs[i + 1]!)
        prependVarint(w, 10)
      })
      put(w, 10, pairs[i])
    })
  }
}
