// The protobuf wire format: reading within bounds, and writing. What the bytes mean is known to
// scan.ts, read.ts and otlp_messages.ts.

/** Bytes or JSON that are not what they claim to be. The message says where. */
export class Malformed extends Error {
  override name = 'Malformed'
  /** Path of the JSON member at fault, where there is one. */
  readonly field: string
  constructor(problem: string, field = '') {
    super(field === '' ? problem : `${field}: ${problem}`)
    this.field = field
  }
}

/** Where reading stands. One object per request, so that reading allocates nothing. */
export interface Cursor {
  readonly bytes: Buffer
  pos: number
}

/** Groups within groups. */
const MAX_GROUPS = 100

/** A varint as a double: one beyond 2^53 is inexact, and still too big for anything that is a length. */
export function varint(c: Cursor, end: number): number {
  if (c.pos >= end) throw cutShort(c)
  let byte = c.bytes[c.pos++]!
  if (byte < 128) return byte
  let value = byte & 127
  for (let scale = 128; scale <= 2 ** 63; scale *= 128) {
    if (c.pos >= end) throw cutShort(c)
    byte = c.bytes[c.pos++]!
    value += (byte & 127) * scale
    if (byte < 128) return value
  }
  throw new Malformed(`a varint of more than ten bytes ends at byte ${c.pos}`)
}

/** An enum or int32: the low 32 bits of a varint. */
export function int32(c: Cursor, end: number): number {
  const start = c.pos
  varint(c, end)
  let value = 0
  for (let i = start, shift = 0; i < c.pos && shift < 32; i++, shift += 7) value |= (c.bytes[i]! & 127) << shift
  return value
}

/** An int64: a number where that is exact, else a bigint. */
export function int64(c: Cursor, end: number): number | bigint {
  const start = c.pos
  const value = varint(c, end)
  if (value <= Number.MAX_SAFE_INTEGER) return value
  let bits = 0n
  for (let i = c.pos - 1; i >= start; i--) bits = (bits << 7n) | BigInt(c.bytes[i]! & 127)
  const signed = BigInt.asIntN(64, bits)
  return signed >= Number.MIN_SAFE_INTEGER && signed <= Number.MAX_SAFE_INTEGER ? Number(signed) : signed
}

/** A field's number and wire type: `number << 3 | type`. */
export function tag(c: Cursor, end: number): number {
  const byte = c.pos < end ? c.bytes[c.pos]! : 0
  if (byte >= 8 && byte < 128) {
    c.pos++
    return byte
  }
  const value = varint(c, end)
  if (value < 8 || value > 0xffff_ffff) throw new Malformed(`no field has the number that ends at byte ${c.pos}`)
  return value
}

/** Reads a length and returns where that many bytes end. */
export function open(c: Cursor, end: number): number {
  const length = lengthAt(c, end)
  if (length > end - c.pos) throw new Malformed(`${length} bytes announced at byte ${c.pos}, where ${end - c.pos} are left`)
  return c.pos + length
}

/** A varint; nearly all that are lengths have one byte or two. */
function lengthAt(c: Cursor, end: number): number {
  const { bytes, pos } = c
  if (pos + 1 >= end) return varint(c, end)
  const low = bytes[pos]!
  if (low < 128) {
    c.pos = pos + 1
    return low
  }
  const high = bytes[pos + 1]!
  if (high >= 128) return varint(c, end)
  c.pos = pos + 2
  return (low & 127) | (high << 7)
}

/** Passes over a field that nobody asked for, groups included. */
export function skip(c: Cursor, fieldTag: number, end: number, depth = 0): void {
  switch (fieldTag & 7) {
    case 0:
      varint(c, end)
      return
    case 1:
      return advance(c, 8, end)
    case 2:
      c.pos = open(c, end)
      return
    case 3:
      return skipGroup(c, fieldTag >>> 3, end, depth)
    case 5:
      return advance(c, 4, end)
    default:
      throw new Malformed(`wire type ${fieldTag & 7} out of place before byte ${c.pos}`)
  }
}

/** A string. What is not UTF-8 in it becomes U+FFFD. */
export function text(c: Cursor, end: number): string {
  const textEnd = open(c, end)
  const start = c.pos
  c.pos = textEnd
  return c.bytes.toString('utf8', start, textEnd)
}

/** Returns the offset of a fixed-size field and passes over it. */
export function fixed(c: Cursor, size: 4 | 8, end: number): number {
  advance(c, size, end)
  return c.pos - size
}

function advance(c: Cursor, size: number, end: number): void {
  if (size > end - c.pos) throw cutShort(c)
  c.pos += size
}

function skipGroup(c: Cursor, field: number, end: number, depth: number): void {
  if (depth === MAX_GROUPS) throw new Malformed(`groups nested deeper than ${MAX_GROUPS} at byte ${c.pos}`)
  for (;;) {
    const inner = tag(c, end)
    if ((inner & 7) !== 4) skip(c, inner, end, depth + 1)
    else if (inner >>> 3 === field) return
    else throw new Malformed(`group ${field} is closed as ${inner >>> 3} at byte ${c.pos}`)
  }
}

function cutShort(c: Cursor): Malformed {
  return new Malformed(`the message is cut short at byte ${c.pos}`)
}

/** Bytes filled from the end, so that a message is written before its length. */
export interface Writer {
  bytes: Buffer
  /** First written byte. */
  at: number
}

export const writer = (): Writer => ({ bytes: Buffer.allocUnsafe(1024), at: 1024 })
/** Bytes written so far. */
export const size = ({ bytes, at }: Writer): number => bytes.length - at
export const written = ({ bytes, at }: Writer): Buffer => Buffer.from(bytes.subarray(at))

/** Makes room for `more` bytes in front and returns where they begin. */
function room(w: Writer, more: number): number {
  if (w.at < more) {
    const used = size(w)
    const larger = Buffer.allocUnsafe(Math.max(2 * w.bytes.length, used + more))
    w.bytes.copy(larger, larger.length - used, w.at)
    w.bytes = larger
    w.at = larger.length - used
  }
  w.at -= more
  return w.at
}

/** A whole number from 0 to 2^53. */
export function prependVarint(w: Writer, value: number): void {
  let length = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length++
  let at = room(w, length)
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) w.bytes[at++] = (rest % 128) | 128
  w.bytes[at] = rest
}

/** A negative one takes ten bytes. */
export function prependInt64(w: Writer, value: bigint): void {
  if (value >= 0n && value <= Number.MAX_SAFE_INTEGER) return prependVarint(w, Number(value))
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value)
  for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  bytes.push(Number(rest))
  const at = room(w, bytes.length)
  w.bytes.set(bytes, at)
}

export function prependFixed32(w: Writer, value: number): void {
  const at = room(w, 4)
  w.bytes.writeUInt32LE(value, at)
}

export function prependFixed64(w: Writer, value: bigint): void {
  const at = room(w, 8)
  w.bytes.writeBigUInt64LE(value, at)
}

export function prependDouble(w: Writer, value: number): void {
  const at = room(w, 8)
  w.bytes.writeDoubleLE(value, at)
}

export function prependBytes(w: Writer, value: Buffer): void {
  const at = room(w, value.length)
  value.copy(w.bytes, at)
  prependVarint(w, value.length)
}

/** A text so short is written here, where it is ASCII: Node takes longer to be called. */
const SHORT = 48

/** UTF-8; half a surrogate pair becomes U+FFFD. */
export function prependText(w: Writer, value: string): void {
  if (value.length <= SHORT && prependAscii(w, value)) return
  const length = Buffer.byteLength(value)
  const at = room(w, length)
  w.bytes.write(value, at)
  prependVarint(w, length)
}

/** False, and nothing is written, where it is not ASCII. */
function prependAscii(w: Writer, value: string): boolean {
  const { length } = value
  const at = room(w, length)
  for (let i = 0; i < length; i++) {
    const code = value.charCodeAt(i)
    if (code > 0x7f) {
      w.at += length
      return false
    }
    w.bytes[at + i] = code
  }
  prependVarint(w, length)
  return true
}

/** The bytes that hex digits stand for. */
export function prependHex(w: Writer, hex: string): void {
  const length = hex.length / 2
  const at = room(w, length)
  w.bytes.write(hex, at, 'hex')
  prependVarint(w, length)
}
