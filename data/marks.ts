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

/** Whether a span, as protobuf, has any such mark. None of its values is read. */
export function isMarked(payload: Buffer, marks: Marks): boolean {
  const c = { bytes: payload, pos: 0 }
  const end = payload.length
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 42) {
      if (marks.name(shortText(c, end))) return true
    } else if (field === 74 || field === 90) {
      const partEnd = open(c, end)
      if (field === 74 ? marks.key(textOfField(c, 10, partEnd)) : marks.event(textOfField(c, 18, partEnd))) return true
    } else skip(c, field, end)
  }
  return false
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
