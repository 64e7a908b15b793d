// Checks the nested messages that scan() does not read, down to their last value, so that reading
// them later cannot fail.

import { open, skip, tag, type Cursor } from './wire.ts'

/**
 * Messages within messages (a level of key-values takes three, a level of a list two). Deeper
 * ones are refused: recursion needs a bound, and nobody means it.
 */
export const MAX_DEPTH = 200

/** The message fields of a message, by tag. All other fields are checked by being skipped. */
export type Shape = (Shape | undefined)[]

export const ANY_VALUE: Shape = []
const KEY_VALUE: Shape = []
const ARRAY: Shape = []
const KEY_VALUE_LIST: Shape = []
KEY_VALUE[18] = ANY_VALUE
ANY_VALUE[42] = ARRAY
ANY_VALUE[50] = KEY_VALUE_LIST
ARRAY[10] = ANY_VALUE
KEY_VALUE_LIST[10] = KEY_VALUE
export const EVENT: Shape = []
EVENT[26] = KEY_VALUE
export const LINK: Shape = []
LINK[34] = KEY_VALUE
export const SCOPE: Shape = []
SCOPE[26] = KEY_VALUE
export const RESOURCE: Shape = []
RESOURCE[10] = KEY_VALUE
RESOURCE[26] = [] // EntityRef

/**
 * Moves to the end of the message, or throws Malformed. Returns of how many messages it consists, values apart: so many objects it takes to
 * read it. Infinity when something is nested too deeply; it is then not checked.
 */
export function check(c: Cursor, end: number, shape: Shape, depth = 0): number {
  if (depth > MAX_DEPTH) {
    c.pos = end
    return Infinity
  }
  let parts = shape === ANY_VALUE ? 0 : 1
  while (c.pos < end) {
    if (shape === ARRAY && integerItems(c, end)) continue
    const field = tag(c, end)
    const inner = field < 128 ? shape[field] : undefined
    if (inner === undefined) skip(c, field, end)
    else parts += check(c, open(c, end), inner, depth + 1)
  }
  return parts
}

/** Token ids: one integer an item, a thousand items a span. Passes over such items as far as they follow each other; false where none stands. */
function integerItems(c: Cursor, end: number): boolean {
  const { bytes, pos } = c
  let at = pos
  while (at < end && bytes[at] === 10 && bytes[at + 2] === 24) {
    const length = bytes[at + 1]! // of the AnyValue: a tag and a varint
    const itemEnd = at + 2 + length
    let last = at + 3
    while (last < itemEnd && bytes[last]! >= 128) last++
    if (last !== itemEnd - 1 || length > 11 || itemEnd > end) break
    at = itemEnd
  }
  c.pos = at
  return at > pos
}
