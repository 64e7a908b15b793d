// Long texts as UTF-8 outside of V8's heap: half of what a string takes that has one character beyond Latin-1, and nothing that the garbage
// collector moves. A part whose text is held reads like any other, by its property `text`, which is made anew each time; what is asked of
// every text is answered here without making it.

import type { Part } from './dialect.ts'
import { asBuffer, LONG } from './json_bytes.ts'

const SMALLEST_SHEET = 16 << 10
const LARGEST_SHEET = 1 << 20
/** An eighth of it, for an answer is often that much shorter than its question. */
const GOOD_PART = 8
/** Of a text that look() looks at. */
const LOOKS = 32

/** Where it is may change, what it is never does. */
interface Held {
  sheet: Buffer
  start: number
  end: number
}

type WithHeld = Part & { readonly [HELD]?: Held }
const HELD = Symbol('held')

const TEXT: PropertyDescriptor = {
  get(this: { readonly [HELD]: Held }): string {
    const { sheet, start, end } = this[HELD]
    return sheet.toString('utf8', start, end)
  },
  enumerable: true,
}

/** What a model said or was told, from its UTF-8, which has to stay as it is: until the part is kept, or for good where it is a good part of its memory. */
export function heldText(bytes: Uint8Array): Part {
  const part = withHeld(bytes) as Record<string, unknown>
  part.kind = 'text'
  return Object.defineProperty(part, 'text', TEXT) as unknown as Part
}

function withHeld(bytes: Uint8Array): object {
  const sheet = asBuffer(bytes)
  const held: Held = { sheet, start: 0, end: sheet.length }
  return Object.defineProperty({}, HELD, { value: held })
}

/** A part equal to this one, whose text is held if it is long. */
export function hold(part: Part): Part {
  if (heldOf(part) || !('text' in part) || !isLong(part.text) || !isWellFormed(part.text)) return part
  const same = withHeld(Buffer.from(part.text)) as Record<string, unknown>
  // In the same order, as it is written down.
  for (const [key, value] of Object.entries(part)) {
    if (key === 'text') Object.defineProperty(same, key, TEXT)
    else same[key] = value
  }
  return same as unknown as Part
}

/** As UTF-8. Nothing takes more than three bytes a character. */
const isLong = (text: string): boolean => text.length >= LONG || (text.length * 3 >= LONG && Buffer.byteLength(text) >= LONG)

/** In ES2024, and in every Node that this runs on, but not yet in the types. Half of a character pair is no UTF-8. */
const isWellFormed = (text: string): boolean => (text as string & { isWellFormed(): boolean }).isWellFormed()

/**
 * Keeps held texts in memory of its own, of which there is about as much as they need. One that is a good part of the memory it is in stays
 * there: a call's bytes, where they are nobody else's, are mostly what was said in it.
 */
export function textKeeper(): (part: Part) => void {
  let sheet = Buffer.alloc(0)
  let used = 0
  let size = SMALLEST_SHEET

  return (part) => {
    const held = heldOf(part)
    if (!held) return
    const length = held.end - held.start
    if (GOOD_PART * length >= held.sheet.buffer.byteLength) return
    if (length > sheet.length - used) {
      sheet = Buffer.allocUnsafeSlow(Math.max(size, length))
      used = 0
      size = Math.min(2 * size, LARGEST_SHEET)
    }
    held.sheet.copy(sheet, used, held.start, held.end)
    held.sheet = sheet
    held.start = used
    held.end = used += length
  }
}

const heldOf = (part: Part): Held | undefined => (part as WithHeld)[HELD]

/** What a part says, as text. */
export const textOfPart = (part: Part): string =>
  part.kind === 'tool_call' ? part.arguments : part.kind === 'media' ? (part.reference ?? 'media') : part.text

/** Bytes of its UTF-8. */
export function textSize(part: Part): number {
  const held = heldOf(part)
  return held ? held.end - held.start : Buffer.byteLength(textOfPart(part))
}

/** Whether the text has these ASCII characters in it. */
export function textIncludes(part: Part, ascii: string): boolean {
  const held = heldOf(part)
  return held ? held.sheet.subarray(held.start, held.end).includes(ascii, 0, 'latin1') : textOfPart(part).includes(ascii)
}

/** Whether the text ends with this ASCII character. */
export function textEndsWith(part: Part, character: string): boolean {
  const held = heldOf(part)
  return held ? held.sheet[held.end - 1] === character.charCodeAt(0) : textOfPart(part).endsWith(character)
}

/** So many of its last bytes, as text. */
export function textEnd(part: Part, bytes: number): string {
  const held = heldOf(part)
  return held ? held.sheet.toString('utf8', Math.max(held.start, held.end - bytes), held.end) : textOfPart(part).slice(-bytes)
}

/** Equal for equal texts, and mostly different for others. */
export function textLook(part: Part): number {
  const held = heldOf(part)
  if (held) return look(held.sheet, held.start, held.end)
  const text = textOfPart(part)
  // What is short is never held.
  const bytes = Buffer.from(text, isLong(text) ? 'utf8' : 'latin1')
  return look(bytes, 0, bytes.length)
}

export function sameText(a: Part, b: Part): boolean {
  const [x, y] = [heldOf(a), heldOf(b)]
  if (!x || !y) return textOfPart(a) === textOfPart(b)
  return x.end - x.start === y.end - y.start && x.sheet.compare(y.sheet, y.start, y.end, x.start, x.end) === 0
}

/** Texts are long and mostly distinct: a few of their bytes tell most of them apart. */
function look(bytes: Buffer, start: number, end: number): number {
  const size = end - start
  let seen = size
  for (let i = end - 1, step = Math.ceil(size / LOOKS); i >= start; i -= step) seen = Math.imul(seen ^ bytes[i]!, 0x01000193)
  return seen
}
