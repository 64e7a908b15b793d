// Bytes as words and as hex digits: where this is done for every span, a loop is cheaper than a call out of JavaScript.

/** Four bytes, the lowest first, as an integer of 32 bits: larger numbers would be objects. */
export const word = (bytes: Buffer, at: number): number =>
  bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)

const DIGITS = Buffer.from('0123456789abcdef')

/** Writes `size` bytes of the source as twice as many digits. Returns where they end. */
export function putHex(bytes: Buffer, at: number, source: Buffer, offset: number, size: number): number {
  let to = at
  for (let from = offset; from < offset + size; from++) {
    const byte = source[from]!
    bytes[to++] = DIGITS[byte >>> 4]!
    bytes[to++] = DIGITS[byte & 15]!
  }
  return to
}
