// The texts of JSON values, as grammars: what a schema's answers are put together from. Numbers and blanks are of bounded length.

import { bytes, choice, EMPTY, literal, NEVER, oneOf, optional, repeat, sequence, type Node } from './grammar.ts'

/** One blank, or a new line and what it is indented by. */
export const BLANK = optional(choice(oneOf(' '), sequence(oneOf('\n'), repeat(oneOf(' \t'), 0, 64))))
const COMMA = sequence(oneOf(','), BLANK)

const HEX = bytes([0x30, 0x39], [0x41, 0x46], [0x61, 0x66])
const LATER = bytes([0x80, 0xbf])
/** `\u` and a character; halves of surrogates are none. */
const CODE = sequence(choice(sequence(oneOf('0123456789abcefABCEF'), HEX), sequence(oneOf('dD'), oneOf('01234567'))), HEX, HEX)
/** UTF-8 (RFC 3629, section 4), or an escape. */
const CHARACTER = choice(
  bytes([0x20, 0x21], [0x23, 0x5b], [0x5d, 0x7f]),
  sequence(bytes([0xc2, 0xdf]), LATER),
  sequence(bytes([0xe0, 0xe0]), bytes([0xa0, 0xbf]), LATER),
  sequence(bytes([0xe1, 0xec], [0xee, 0xef]), LATER, LATER),
  sequence(bytes([0xed, 0xed]), bytes([0x80, 0x9f]), LATER),
  sequence(bytes([0xf0, 0xf0]), bytes([0x90, 0xbf]), LATER, LATER),
  sequence(bytes([0xf1, 0xf3]), LATER, LATER, LATER),
  sequence(bytes([0xf4, 0xf4]), bytes([0x80, 0x8f]), LATER, LATER),
  sequence(oneOf('\\'), choice(oneOf('"\\/bfnrt'), sequence(oneOf('u'), CODE))),
)

export const stringOf = (min = 0, max = Infinity): Node => sequence(oneOf('"'), repeat(CHARACTER, min, max), oneOf('"'))
export const STRING = stringOf()
export const BOOLEAN = choice(literal('true'), literal('false'))
export const NULL = literal('null')
export const constant = (value: unknown): Node => literal(JSON.stringify(value))

export const member = (name: Node, value: Node): Node => sequence(name, BLANK, oneOf(':'), BLANK, value, BLANK)

/** Members in their order, those that are not required left out or not; then any number of `more`. */
export function objectOf(members: readonly { readonly node: Node; readonly required: boolean }[], more: Node): Node {
  // What may follow where nothing was written yet, and where something was: from the last member to the first.
  let first = optional(sequence(more, repeat(sequence(COMMA, more), 0)))
  let later = repeat(sequence(COMMA, more), 0)
  for (const { node, required } of members.toReversed()) {
    const begun = sequence(node, later)
    first = choice(begun, required ? NEVER : first)
    later = choice(sequence(COMMA, begun), required ? NEVER : later)
  }
  return sequence(oneOf('{'), BLANK, first, oneOf('}'))
}

/** `first` in their order, then any number of `more`; `min` and `max` of both together. */
export function arrayOf(first: readonly Node[], more: Node, min = 0, max = Infinity): Node {
  const items = first.map((item, i) => sequence(i === 0 ? EMPTY : COMMA, item, BLANK))
  const others = (written: number) => repeat(sequence(COMMA, more, BLANK), Math.max(0, min - written), max - written)
  const some = items.length > 0 ? sequence(...items, others(items.length)) : sequence(more, BLANK, others(1))
  const none = items.length === 0 && min === 0 ? EMPTY : NEVER
  return sequence(oneOf('['), BLANK, choice(max > 0 ? some : NEVER, none), oneOf(']'))
}

/** As many as are exact in a double. */
const DIGITS = 15
const DIGIT = oneOf('0123456789')
const NOT_ZERO = oneOf('123456789')
const MINUS = oneOf('-')
const FRACTION = sequence(oneOf('.'), repeat(DIGIT, 1, DIGITS))
const FRACTION_ABOVE_ZERO = sequence(oneOf('.'), repeat(oneOf('0'), 0, DIGITS), NOT_ZERO, repeat(DIGIT, 0, DIGITS))
const EXPONENT = sequence(oneOf('eE'), optional(oneOf('+-')), repeat(DIGIT, 1, 2))
export const INTEGER = sequence(optional(MINUS), choice(oneOf('0'), sequence(NOT_ZERO, repeat(DIGIT, 0, DIGITS - 1))))
export const NUMBER = sequence(INTEGER, optional(FRACTION), optional(EXPONENT))

export interface Bound {
  readonly value: number
  /** Whether the value itself is out. */
  readonly open: boolean
}

/** NEVER where no whole number lies between: what is below one and above the next is not looked for. */
export function numberBetween(low: Bound, high: Bound, whole: boolean): Node {
  const mirrored = ({ value, open }: Bound) => ({ value: -value, open })
  const negative = low.value < 0 ? sequence(MINUS, unsigned(mirrored(high), mirrored(low), whole)) : NEVER
  return choice(unsigned(low, high, whole), negative)
}

/** Those of the numbers between that are not below 0. */
function unsigned(low: Bound, high: Bound, whole: boolean): Node {
  const from = low.value < 0 ? { value: 0, open: false } : low
  const first = Math.ceil(from.value)
  const last = Math.min(Math.floor(high.value), 10 ** DIGITS - 1)
  const firstIsOut = from.open && first === from.value
  const lastIsOut = high.open && last === high.value
  if (first > last) return NEVER
  if (whole) return wholes(first + Number(firstIsOut), last - Number(lastIsOut))
  // Something must stand behind the point of the first if that is out itself, and nothing may behind the last.
  return choice(
    firstIsOut && first < last ? sequence(constant(first), FRACTION_ABOVE_ZERO) : NEVER,
    sequence(wholes(first + Number(firstIsOut), last - 1), optional(FRACTION)),
    wholes(first + Number(firstIsOut), last - Number(lastIsOut)),
  )
}

/** The whole numbers from `first` to `last`. */
function wholes(first: number, last: number): Node {
  if (first > last) return NEVER
  const [low, high] = [String(first), String(last)]
  if (/^10*$/.test(low) && /^9*$/.test(high)) return sequence(NOT_ZERO, repeat(DIGIT, low.length - 1, high.length - 1))
  if (low.length < high.length) return choice(wholes(first, 10 ** low.length - 1), wholes(10 ** low.length, last))
  return digitsBetween(low, high)
}

/** Texts of digits between two of the same length. */
function digitsBetween(low: string, high: string): Node {
  if (low === '') return EMPTY
  const [from, to, rest] = [low.charCodeAt(0), high.charCodeAt(0), low.length - 1]
  if (from === to) return sequence(bytes([from, from]), digitsBetween(low.slice(1), high.slice(1)))
  return choice(
    sequence(bytes([from, from]), digitsBetween(low.slice(1), '9'.repeat(rest))),
    from + 1 < to ? sequence(bytes([from + 1, to - 1]), repeat(DIGIT, rest, rest)) : NEVER,
    sequence(bytes([to, to]), digitsBetween('0'.repeat(rest), high.slice(1))),
  )
}
