// Where the text of an attribute stands, for those who copy it: no string is made of it.

import { open, type Cursor } from './wire.ts'

const KEY = (1 << 3) | 2
const VALUE = (2 << 3) | 2
const STRING = (1 << 3) | 2

/** What findPlainText found. */
export const plainText = { start: 0, end: 0 }

/**
 * Looks at the KeyValue whose length prefix stands at `slot`, in a body that was checked. False where it is not as everybody writes it, a key
 * and then ASCII text: then it has to be decoded.
 */
export function findPlainText(bytes: Buffer, slot: number): boolean {
  const c: Cursor = { bytes, pos: slot }
  const end = open(c, bytes.length)
  if (bytes[c.pos++] !== KEY) return false
  c.pos = open(c, end)
  if (bytes[c.pos++] !== VALUE || open(c, end) !== end) return false
  if (bytes[c.pos++] !== STRING || open(c, end) !== end) return false
  for (let i = c.pos; i < end; i++) if (bytes[i]! >= 128) return false
  plainText.start = c.pos
  plainText.end = end
  return true
}
