// The protobuf wire format written forwards: what comes from bytes is copied straight to its place. wire.ts writes backwards, which is for
// messages that are made of objects.

/** Grows as it is filled; `at` is where the next byte goes. */
export interface Out {
  bytes: Buffer
  at: number
}

export const opened = (size = 1024): Out => ({ bytes: Buffer.allocUnsafe(size), at: 0 })
/** What was written, in the same memory. */
export const written = ({ bytes, at }: Out): Buffer => bytes.subarray(0, at)

/** Longest varint of a length. */
const LENGTH = 5
/** Of fewer bytes than this, copying them here costs less than having them copied. */
const SHORT = 32

function makeRoom(out: Out, more: number): void {
  if (out.at + more <= out.bytes.length) return
  const larger = Buffer.allocUnsafe(Math.max(2 * out.bytes.length, out.at + more))
  out.bytes.copy(larger, 0, 0, out.at)
  out.bytes = larger
}

function putVarint(out: Out, value: number): void {
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) out.bytes[out.at++] = (rest % 128) | 128
  out.bytes[out.at++] = rest
}

/** Bytes that a length takes. */
export const sizeOfLength = (length: number): number =>
  length < 1 << 7 ? 1 : length < 1 << 14 ? 2 : length < 1 << 21 ? 3 : length < 1 << 28 ? 4 : LENGTH

/** What stands before a field of so many bytes; its tag is below 128. */
export function putHeader(out: Out, tag: number, length: number): void {
  makeRoom(out, 1 + LENGTH)
  out.bytes[out.at++] = tag
  putVarint(out, length)
}

export function putBytes(out: Out, tag: number, from: Buffer, start: number, end: number): void {
  const length = end - start
  makeRoom(out, 1 + LENGTH + length)
  out.bytes[out.at++] = tag
  putVarint(out, length)
  if (length < SHORT) for (let i = start; i < end; i++) out.bytes[out.at++] = from[i]!
  else out.at += from.copy(out.bytes, out.at, start, end)
}

export function putNumber(out: Out, tag: number, value: number): void {
  makeRoom(out, 1 + 10)
  out.bytes[out.at++] = tag
  putVarint(out, value)
}

export function putFixed64(out: Out, tag: number, value: bigint): void {
  makeRoom(out, 1 + 8)
  out.bytes[out.at++] = tag
  out.at = out.bytes.writeBigUInt64LE(BigInt.asUintN(64, value), out.at)
}

/** A message made of what `fill` writes, which is moved to behind its length. */
export function putMessage(out: Out, tag: number, fill: () => void): void {
  makeRoom(out, 1 + LENGTH)
  out.bytes[out.at] = tag
  const start = out.at + 1 + LENGTH
  out.at = start
  fill()
  const { at } = out
  out.at = start - LENGTH
  putVarint(out, at - start)
  out.bytes.copyWithin(out.at, start, at)
  out.at += at - start
}
