// Short texts that come again and again, such as the keys of attributes: one string serves all of them, and making it is paid once.

import { word } from './bytes.ts'
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
export const knownBytes = (longest: number): ((bytes: Buffer, start: number, end: number) => string) =>
  knownMeanings(longest, (text) => text)

/** What is made of the text that stands there, which is worked out once for one that comes again and again. */
export function knownMeanings<T>(longest: number, meaningOf: (text: string) => T): (bytes: Buffer, start: number, end: number) => T {
  const stride = Math.ceil(longest / 4)
  const words = new Int32Array(PLACES * stride)
  /** Of the text at each place; -1 for none yet. */
  const lengths = new Int16Array(PLACES).fill(-1)
  const known = new Array<T>(PLACES)
  const its = new Int32Array(stride)
  /** The place of the text that came after that of each place: spans of one making have the same keys in the same order. */
  const after = new Int16Array(PLACES)
  let latest = 0

  return (bytes, start, end) => {
    const length = end - start
    if (length > longest) return meaningOf(bytes.toString('utf8', start, end))
    const likely = after[latest]!
    if (lengths[likely] === length && hasWords(words, likely * stride, bytes, start, end)) {
      latest = likely
      return known[likely]!
    }
    const place = putWords(its, bytes, start, end) & (PLACES - 1)
    after[latest] = place
    latest = place
    const first = place * stride
    const count = (length + 3) >> 2
    let same = lengths[place] === length ? 0 : -1
    while (same >= 0 && same < count) same = words[first + same] === its[same] ? same + 1 : -1
    if (same === count) return known[place]!
    words.set(its, first)
    lengths[place] = length
    return (known[place] = meaningOf(bytes.toString('utf8', start, end)))
  }
}

/** Whether the words from `first` on are those that putWords() would put of the text. */
function hasWords(words: Int32Array, first: number, bytes: Buffer, start: number, end: number): boolean {
  let at = first
  let i = start
  for (; i + 4 <= end; i += 4) {
    const four = word(bytes, i)
    if (words[at++] !== four) return false
  }
  if (i === end) return true
  let rest = 0
  for (; i < end; i++) rest = (rest << 8) | bytes[i]!
  return words[at] === rest
}

/** Four bytes at a time, the last ones as they are. Returns their hash. */
function putWords(words: Int32Array, bytes: Buffer, start: number, end: number): number {
  let hash = end - start
  let count = 0
  let i = start
  for (; i + 4 <= end; i += 4) {
    const four = word(bytes, i)
    words[count++] = four
    hash = Math.imul(hash ^ four, 0x9e3779b1)
    hash ^= hash >>> 15
  }
  if (i === end) return hash
  let rest = 0
  for (; i < end; i++) rest = (rest << 8) | bytes[i]!
  words[count] = rest
  hash = Math.imul(hash ^ rest, 0x9e3779b1)
  return hash ^ (hash >>> 15)
}
