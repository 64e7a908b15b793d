// Attributes as nearly all are written: a short key, then a text, a number or a truth value, and nothing else. They are found without a cursor,
// and no string is made of them.

/** What passPlain found; `start` is where a text begins, 0 where the value is none. */
export const plain = { key: 0, keyLength: 0, start: 0, end: 0 }

/**
 * Looks at the KeyValue whose length prefix stands at `slot`, and checks all of it. Returns where it ends; 0 for any that is written otherwise:
 * it has to be read field by field.
 */
export function passPlain(bytes: Buffer, slot: number, limit: number): number {
  const start = afterLength(bytes, slot)
  const end = start + length
  if (end > limit || length < SMALLEST || bytes[start] !== KEY) return 0
  const keyLength = bytes[start + 1]!
  const value = start + 2 + keyLength
  if (keyLength > 127 || value + 4 > end || bytes[value] !== VALUE) return 0
  const inner = afterLength(bytes, value + 1)
  if (inner + length !== end || inner + 2 > end) return 0
  const kind = bytes[inner]!
  let text = 0
  if (kind === STRING) {
    text = afterLength(bytes, inner + 1)
    if (text + length !== end) return 0
  } else if (kind === INT || kind === BOOL) {
    if (!isVarint(bytes, inner + 1, end)) return 0
  } else if (kind !== DOUBLE || inner + 9 !== end) return 0
  plain.key = start + 2
  plain.keyLength = keyLength
  plain.start = text
  plain.end = end
  return end
}

/** Whether it is such a text in ASCII, of a body that was checked: any other has to be decoded. */
export function isPlainAscii(bytes: Buffer, slot: number): boolean {
  if (passPlain(bytes, slot, bytes.length) === 0 || plain.start === 0) return false
  for (let i = plain.start; i < plain.end; i++) if (bytes[i]! >= 128) return false
  return true
}

/** A key of no bytes, and a value of two. */
const SMALLEST = 6
const KEY = (1 << 3) | 2
const VALUE = (2 << 3) | 2
const STRING = (1 << 3) | 2
const BOOL = 2 << 3
const INT = 3 << 3
const DOUBLE = (4 << 3) | 1
const MOST_VARINT = 10

/** Whether one varint stands there, and nothing else. */
function isVarint(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > MOST_VARINT || bytes[end - 1]! >= 128) return false
  for (let i = start; i < end - 1; i++) if (bytes[i]! < 128) return false
  return true
}

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
