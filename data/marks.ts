// What of a span tells which dialect wrote it, found in its bytes: its name, the keys of its attributes, the names of its events.

import { forgetHead, head, readHeadField } from './head.ts'
import { knownMeanings, knownTexts } from './known_texts.ts'
import { passPlain, plain } from './plain_text.ts'
import { open, skip, tag, type Cursor } from './wire.ts'

/** Keys repeat from span to span; of values the short ones do: models, operations, roles. */
const LONGEST_KEY = 64
const LONGEST_NAME = 24
export const keyText = knownTexts(LONGEST_KEY)
export const shortText = knownTexts(LONGEST_NAME)

/** Whether a text of its kind is a mark. */
export interface Marks {
  name(text: string): boolean
  key(text: string): boolean
  event(text: string): boolean
}

/** All of a span; of its attributes those that are asked of every span; or none of them. */
export type Extent = 'all' | 'asked' | 'none'

/**
 * How much there is to be read of a span, as protobuf: all, where it has any such mark. None of its values is read for that, and of most
 * spans this is the only walk: what head.ts is asked for is noted on the way.
 * @param asked keys of the attributes that are asked of every span
 */
export function extentFinder({ name, key, event }: Marks, asked: ReadonlySet<string>): (payload: Buffer) => Extent {
  const isName = knownMeanings(LONGEST_NAME, name)
  const isEvent = knownMeanings(LONGEST_KEY, event)
  const extentOfKey = knownMeanings(LONGEST_KEY, (text): Extent => (key(text) ? 'all' : asked.has(text) ? 'asked' : 'none'))

  return (payload) => {
    const c = { bytes: payload, pos: 0 }
    const end = payload.length
    let extent: Extent = 'none'
    forgetHead()
    while (c.pos < end) {
      const field = tag(c, end)
      if (field === 42) {
        const nameEnd = open(c, end)
        if (isName(payload, c.pos, nameEnd)) return 'all'
        c.pos = nameEnd
      } else if (field === 74) {
        findKey(c, end)
        const its = extentOfKey(payload, found.start, found.end)
        if (its === 'all') return its
        if (its === 'asked') extent = its
      } else if (field === 90) {
        findText(c, 18, open(c, end))
        if (isEvent(payload, found.start, found.end)) return 'all'
      } else readHeadField(c, field, end)
    }
    head.of = payload
    return extent
  }
}

/** Where a text stands that was looked for; it is empty where there is none. */
const found = { start: 0, end: 0 }

/** That of an attribute's key. */
function findKey(c: Cursor, end: number): void {
  if (passPlain(c.bytes, c.pos, end) === 0) return findText(c, 10, open(c, end))
  found.start = plain.key
  found.end = plain.key + plain.keyLength
  c.pos = plain.end
}

/** That of one field of the message that ends at `end`, where the cursor stands afterwards. */
function findText(c: Cursor, wanted: number, end: number): void {
  found.start = found.end = end
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === wanted) {
      found.end = open(c, end)
      found.start = c.pos
      c.pos = found.end
    } else skip(c, field, end)
  }
}

/** The text of one field of the message that ends at `end`, where the cursor stands afterwards; '' where it has none. */
export function textOfField(c: Cursor, wanted: number, end: number): string {
  let found = ''
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === wanted) found = keyText(c, end)
    else skip(c, field, end)
  }
  return found
}
