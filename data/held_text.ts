// Long texts of a huge run as UTF-8 outside of V8's heap: half of what a string takes that has one character beyond Latin-1, and nothing that
// the garbage collector moves. A part whose text is held reads like any other, by its property `text`, which is made anew each time; what
// is asked of every text is answered here without making it.

import type { Part } from './dialect.ts'
import { textOfPart } from './messages.ts'

/** Shorter ones are as well off where they are. */
const LONG = 256
const SHEET = 1 << 20
/** Of a text that look() looks at. */
const LOOKS = 32

interface Held {
  readonly sheet: Buffer
  readonly start: number
  readonly end: number
  /** Of the text, in UTF-16. */
  readonly length: number
  readonly look: number
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

/** Gives parts equal to those that it gets, whose long texts are held. */
export function textHolder(): (part: Part) => Part {
  let sheet = Buffer.alloc(0)
  let used = 0

  function put(text: string): Pick<Held, 'sheet' | 'start' | 'end'> {
    // No text takes more than three bytes a character.
    if (text.length > (sheet.length - used) / 3) {
      sheet = Buffer.allocUnsafeSlow(Math.max(SHEET, text.length * 3))
      used = 0
    }
    const start = used
    used += sheet.write(text, start)
    return { sheet, start, end: used }
  }

  return (part) => {
    // Half of a character pair is no UTF-8.
    if (!('text' in part) || part.text.length < LONG || !isWellFormed(part.text)) return part
    const { text } = part
    const held: Held = { ...put(text), length: text.length, look: look(text) }
    const same: Record<string, unknown> = {}
    Object.defineProperty(same, HELD, { value: held })
    // In the same order, as it is written down.
    for (const [key, value] of Object.entries(part)) {
      if (key === 'text') Object.defineProperty(same, key, TEXT)
      else same[key] = value
    }
    return same as unknown as Part
  }
}

/** In ES2024, and in every Node that this runs on, but not yet in the types. */
const isWellFormed = (text: string): boolean => (text as string & { isWellFormed(): boolean }).isWellFormed()

const heldOf = (part: Part): Held | undefined => (part as WithHeld)[HELD]

export const textLength = (part: Part): number => heldOf(part)?.length ?? textOfPart(part).length

/** Whether the text has these ASCII characters in it. */
export function textIncludes(part: Part, ascii: string): boolean {
  const held = heldOf(part)
  return held ? held.sheet.subarray(held.start, held.end).includes(ascii, 0, 'latin1') : textOfPart(part).includes(ascii)
}

/** Equal for equal texts, and mostly different for others. */
export const textLook = (part: Part): number => heldOf(part)?.look ?? look(textOfPart(part))

export function sameText(a: Part, b: Part): boolean {
  const [x, y] = [heldOf(a), heldOf(b)]
  if (!x || !y) return textOfPart(a) === textOfPart(b)
  return x.length === y.length && x.sheet.compare(y.sheet, y.start, y.end, x.start, x.end) === 0
}

/** Texts are long and mostly distinct: a few of their characters tell most of them apart. */
function look(text: string): number {
  let seen = text.length
  for (let i = text.length - 1, step = Math.ceil(text.length / LOOKS); i >= 0; i -= step) {
    seen = Math.imul(seen ^ text.charCodeAt(i), 0x01000193)
  }
  return seen
}
