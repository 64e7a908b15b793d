// Rows of an otel_traces table as an OTLP request, from the bytes of ClickHouse's answer to the bytes of protobuf. Values of attributes
// come back as the text that the Collector made of them. Nothing is made of a row on the way but its span.

import { fixed, Malformed, open, varint, type Cursor } from '../data/wire.ts'
import { opened, putBytes, putFixed64, putHeader, putMessage, putNumber, sizeOfLength, written, type Out } from '../data/wire_out.ts'
import type { Forms } from './otel_query.ts'

interface Group {
  readonly resource: Buffer
  readonly scope: Buffer
  readonly spans: Out
}

/** The rows that are whole among the bytes, as an ExportTraceServiceRequest, and how many of the bytes they are. */
export function requestFrom(bytes: Buffer, forms: Forms): { request: Buffer; used: number } {
  const c = { bytes, pos: 0 }
  const groups = new Map<string, Group>()
  const span = opened()
  let used = 0
  try {
    while (c.pos < bytes.length) {
      passAttributes(c, forms.resource)
      passText(c)
      passText(c)
      const key = bytes.toString('latin1', used, c.pos)
      span.at = 0
      putSpan(span, c, forms)
      let group = groups.get(key)
      if (!group) groups.set(key, (group = groupOf({ bytes, pos: used }, forms)))
      putBytes(group.spans, 18, span.bytes, 0, span.at)
      used = c.pos
    }
  } catch (error) {
    // The last row has only begun.
    if (!(error instanceof Malformed)) throw error
  }
  return { request: Buffer.concat([...groups.values()].flatMap(resourceSpans)), used }
}

/** What its rows begin with. */
function groupOf(c: Cursor, forms: Forms): Group {
  const resource = opened()
  putAttributes(resource, 10, c, forms.resource)
  const scope = opened()
  putText(scope, 10, c)
  putText(scope, 18, c)
  return { resource: written(resource), scope: written(scope), spans: opened() }
}

function resourceSpans({ resource, scope, spans }: Group): Buffer[] {
  const inScope = [header(10, scope.length), scope, written(spans)]
  const inResource = [header(10, resource.length), resource, header(18, sizeOf(inScope)), ...inScope]
  return [header(10, sizeOf(inResource)), ...inResource]
}

const sizeOf = (pieces: readonly Buffer[]) => pieces.reduce((sum, { length }) => sum + length, 0)

function header(tag: number, length: number): Buffer {
  const out = opened(16)
  putHeader(out, tag, length)
  return written(out)
}

/** The rest of a row, as a Span. */
function putSpan(out: Out, c: Cursor, forms: Forms): void {
  for (const tag of [10, 18, 34, 26, 42]) putText(out, tag, c) // trace, span, parent, state, name
  putNumber(out, 48, byte(c))
  const start = c.bytes.readBigInt64LE(fixed(c, 8, c.bytes.length))
  const duration = c.bytes.readBigInt64LE(fixed(c, 8, c.bytes.length))
  putFixed64(out, 57, start)
  putFixed64(out, 65, start + duration)
  putMessage(out, 122, () => {
    putNumber(out, 24, byte(c))
    putText(out, 18, c)
  })
  putAttributes(out, 74, c, forms.span)
  putEvents(out, c, forms.event)
  putLinks(out, c, forms.link)
}

/** Lists of what each event has: all times, then all names, then all attributes. */
function putEvents(out: Out, c: Cursor, form: Form): void {
  const times = passList(c, (at) => fixed(at, 8, at.bytes.length))
  const names = passList(c, passText)
  for (let left = varint(c, c.bytes.length); left > 0; left--) {
    putMessage(out, 90, () => {
      putFixed64(out, 9, c.bytes.readBigInt64LE(fixed(times, 8, c.bytes.length)))
      putText(out, 18, names)
      putAttributes(out, 26, c, form)
    })
  }
}

function putLinks(out: Out, c: Cursor, form: Form): void {
  const lists = [10, 18, 26].map((tag) => ({ tag, texts: passList(c, passText) })) // trace, span, state
  for (let left = varint(c, c.bytes.length); left > 0; left--) {
    putMessage(out, 106, () => {
      for (const { tag, texts } of lists) putText(out, tag, texts)
      putAttributes(out, 34, c, form)
    })
  }
}

type Form = Forms[keyof Forms]

function byte(c: Cursor): number {
  if (c.pos >= c.bytes.length) throw new Malformed('the answer is cut short')
  return c.bytes[c.pos++]!
}

function passText(c: Cursor): void {
  c.pos = open(c, c.bytes.length)
}

/** Passes over a list and returns where its first item stands. */
function passList(c: Cursor, pass: (c: Cursor) => void): Cursor {
  let left = varint(c, c.bytes.length)
  const { pos } = c
  for (; left > 0; left--) pass(c)
  return { bytes: c.bytes, pos }
}

function passAttributes(c: Cursor, form: Form): void {
  if (form === 'json') return passText(c)
  for (let left = 2 * varint(c, c.bytes.length); left > 0; left--) passText(c)
}

/** KeyValues whose values are text. */
function putAttributes(out: Out, tag: number, c: Cursor, form: Form): void {
  if (form === 'json') {
    const end = open(c, c.bytes.length)
    putMembers(out, tag, JSON.parse(c.bytes.toString('utf8', c.pos, end) || '{}') as object, '')
    c.pos = end
    return
  }
  for (let left = varint(c, c.bytes.length); left > 0; left--) {
    const keyEnd = open(c, c.bytes.length)
    const key = c.pos
    c.pos = keyEnd
    const valueEnd = open(c, c.bytes.length)
    putKeyValue(out, tag, c.bytes, key, keyEnd, c.bytes, c.pos, valueEnd)
    c.pos = valueEnd
  }
}

/** A JSON column makes objects of keys with dots. */
function putMembers(out: Out, tag: number, value: object, prefix: string): void {
  for (const [name, member] of Object.entries(value) as [string, unknown][]) {
    if (member === null) continue
    if (typeof member === 'object' && !Array.isArray(member)) putMembers(out, tag, member, `${prefix}${name}.`)
    else {
      const key = Buffer.from(prefix + name)
      const text = Buffer.from(typeof member === 'string' ? member : JSON.stringify(member))
      putKeyValue(out, tag, key, 0, key.length, text, 0, text.length)
    }
  }
}

/** Its value is an AnyValue that holds a string, so there are three lengths before the text. */
function putKeyValue(
  out: Out,
  tag: number,
  key: Buffer,
  keyStart: number,
  keyEnd: number,
  text: Buffer,
  textStart: number,
  textEnd: number,
): void {
  const keySize = sizeOfField(keyEnd - keyStart)
  const valueSize = sizeOfField(textEnd - textStart)
  putHeader(out, tag, keySize + sizeOfField(valueSize))
  putBytes(out, 10, key, keyStart, keyEnd)
  putHeader(out, 18, valueSize)
  putBytes(out, 10, text, textStart, textEnd)
}

const sizeOfField = (length: number) => 1 + sizeOfLength(length) + length

/** Left out where it is empty. */
function putText(out: Out, tag: number, c: Cursor): void {
  const end = open(c, c.bytes.length)
  if (end > c.pos) putBytes(out, tag, c.bytes, c.pos, end)
  c.pos = end
}
