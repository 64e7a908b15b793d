// Bytes as words and as hex digits: where this is done for every span, a loop is cheaper than a call out of JavaScript.

/** Four bytes, the lowest first, as an integer of 32 bits: larger numbers would be objects. */
export const word = (bytes: Buffer, at: number): number =>
  bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)

/** The two digits of each byte, the first one lowest. */
const DIGITS = Uint16Array.from({ length: 256 }, (_, byte) => Buffer.from(byte.toString(16).padStart(2, '0')).readUInt16LE())

/** Writes `size` bytes of the source as twice as many digits. Returns where they end. */
export function putHex(view: DataView, at: number, source: Buffer, offset: number, size: number): number {
  let to = at
  for (let from = offset; from < offset + size; from++, to += 2) view.setUint16(to, DIGITS[source[from]!]!, true)
  return to
}

/** The same of a span id, as units of two digits. */
export function putSpanId(units: Uint16Array, at: number, source: Buffer, offset: number): void {
  for (let i = 0; i < 8; i++) units[at + i] = DIGITS[source[offset + i]!]!
}

export const viewOf = ({ buffer, byteOffset, length }: Buffer): DataView => new DataView(buffer, byteOffset, length)
