// What of a span tells which dialect wrote it, found in its bytes: its name, the keys of its attributes, the names of its events.

import { knownTexts } from './known_texts.ts'
import { open, skip, tag, type Cursor } from './wire.ts'

/** Keys repeat from span to span; of values the short ones do: models, operations, roles. */
export const keyText = knownTexts(64)
export const shortText = knownTexts(24)

/** Whether a text of its kind is a mark. */
export interface Marks {
  name(text: string): boolean
  key(text: string): boolean
  event(text: string): boolean
}

/** All of a span; of its attributes those that are asked of every span; or none of them. */
export type Extent = 'all' | 'asked' | 'none'

/** How much there is to be read of a span, as protobuf: all, where it has any such mark. None of its values is read for that. */
export function extentOf(payload: Buffer, marks: Marks, asked: ReadonlySet<string>): Extent {
  const c = { bytes: payload, pos: 0 }
  const end = payload.length
  let extent: Extent = 'none'
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 42) {
      if (marks.name(shortText(c, end))) return 'all'
    } else if (field === 74) {
      const key = textOfField(c, 10, open(c, end))
      if (marks.key(key)) return 'all'
      if (asked.has(key)) extent = 'asked'
    } else if (field === 90) {
      if (marks.event(textOfField(c, 18, open(c, end)))) return 'all'
    } else skip(c, field, end)
  }
  return extent
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
