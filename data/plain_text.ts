// Attributes as nearly all are written: a short key, then text, and nothing else. They are found without a cursor, and no string is made of them.

/** What isPlain found. */
export const plain = { key: 0, keyLength: 0, start: 0, end: 0 }

/** Looks at the KeyValue whose length prefix stands at `slot`. False for any that is written otherwise: it has to be read field by field. */
export function isPlain(bytes: Buffer, slot: number, limit: number): boolean {
  const start = afterLength(bytes, slot)
  const end = start + length
  const keyLength = bytes[start + 1]!
  if (end > limit || bytes[start] !== KEY || keyLength > 127) return false
  const key = start + 2
  const value = key + keyLength
  const inner = afterLength(bytes, value + 1)
  if (bytes[value] !== VALUE || inner + length !== end) return false
  const text = afterLength(bytes, inner + 1)
  if (bytes[inner] !== STRING || text + length !== end) return false
  plain.key = key
  plain.keyLength = keyLength
  plain.start = text
  plain.end = end
  return true
}

/** The same for a body that was checked; false, too, where the text is not ASCII and so has to be decoded. */
export function isPlainAscii(bytes: Buffer, slot: number): boolean {
  if (!isPlain(bytes, slot, bytes.length)) return false
  for (let i = plain.start; i < plain.end; i++) if (bytes[i]! >= 128) return false
  return true
}

const KEY = (1 << 3) | 2
const VALUE = (2 << 3) | 2
const STRING = (1 << 3) | 2
/** What afterLength read. */
let length = 0
const TOO_LONG = 2 ** 30

/** Reads a length of one, two or three bytes; any other is too long for what is looked for. */
function afterLength(bytes: Buffer, at: number): number {
  const low = bytes[at]!
  length = low
  if (low < 128) return at + 1
  const middle = bytes[at + 1]!
  length = (low & 127) | (middle << 7)
  if (middle < 128) return at + 2
  const high = bytes[at + 2]!
  length = high < 128 ? (low & 127) | ((middle & 127) << 7) | (high << 14) : TOO_LONG
  return at + 3
}
