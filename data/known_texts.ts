// Short texts that come again and again, such as the keys of attributes: one string serves all of them, and making it is paid once.

import { open, type Cursor } from './wire.ts'

/** One place for each hash; whoever comes last has it. */
const PLACES = 4_096

/** A reader of strings as text() of wire.ts, which knows those of at most so many bytes again. */
export function knownTexts(longest: number): (c: Cursor, end: number) => string {
  const textIn = knownBytes(longest)
  return (c, end) => {
    const textEnd = open(c, end)
    const start = c.pos
    c.pos = textEnd
    return textIn(c.bytes, start, textEnd)
  }
}

/** The same for a text that stands from one place to another. */
export function knownBytes(longest: number): (bytes: Buffer, start: number, end: number) => string {
  const known = new Array<string>(PLACES).fill('')
  return (bytes, start, end) => {
    const length = end - start
    if (length > longest) return bytes.toString('utf8', start, end)
    const place = hashOf(bytes, start, end) & (PLACES - 1)
    const text = known[place]!
    return isAscii(text, bytes, start, length) ? text : (known[place] = bytes.toString('utf8', start, end))
  }
}

/** Of four bytes at a time: one multiplication waits for the other. */
function hashOf(bytes: Buffer, start: number, end: number): number {
  let hash = end - start
  let i = start
  for (; i + 4 <= end; i += 4) {
    const word = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
    hash = Math.imul(hash ^ word, 0x9e3779b1)
    hash ^= hash >>> 15
  }
  for (; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193)
  return hash ^ (hash >>> 15)
}

/** Whether the bytes are this text, and it is ASCII: only then are bytes and characters the same numbers. */
function isAscii(text: string, bytes: Buffer, start: number, length: number): boolean {
  if (text.length !== length) return false
  for (let i = 0; i < length; i++) {
    const byte = bytes[start + i]!
    if (byte > 127 || byte !== text.charCodeAt(i)) return false
  }
  return true
}
