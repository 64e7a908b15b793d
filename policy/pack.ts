// Rows of mixed lengths into passes: `batch` slots of `length` tokens, long rows alone in a slot, short ones after each other in what is left.

import type { Row } from './learning.ts'

export interface Pass {
  readonly batch: number
  readonly length: number
  /** [batch · length] Padding is token 0. */
  readonly tokens: Int32Array
  /** [batch · length] Within the row that the token belongs to. */
  readonly positions: Int32Array
  /** [batch · length] Where the token's row begins in its slot. Padding is a row of its own. */
  readonly begins: Int32Array
  /** Slots hold more than one row: attention must keep them apart. */
  readonly mixed: boolean
  /** [n] Place, slot after slot, of the token before each scored one: what predicts it. */
  readonly sources: Int32Array
  /** [n] The scored tokens. */
  readonly targets: Int32Array
  /** [n] 1 / temperature */
  readonly sharpness: Float32Array
  /** [n] Index of each scored token in Scores. */
  readonly places: Int32Array
}

export interface PackLimits {
  readonly tokens_per_pass: number
  readonly context: number
  readonly vocabulary: number
}

/** Throws, naming the row, for one that cannot be scored. */
export function pack(rows: readonly Row[], limits: PackLimits): { readonly passes: readonly Pass[]; readonly scored: number } {
  const items: Item[] = []
  let scored = 0
  rows.forEach((row, index) => {
    check(row, index, limits)
    // What comes after the last scored token changes nothing, and that token itself is only predicted, never read.
    const length = row.scored.lastIndexOf(1)
    if (length > 0) items.push({ row, length, firstPlace: scored })
    scored += row.scored.reduce((sum, one) => sum + one, 0)
  })
  items.sort((a, b) => b.length - a.length)
  const passes: Pass[] = []
  for (let rest = items; rest.length > 0;) {
    const length = rest[0]!.length
    const { slots, left } = fill(rest, length, Math.max(1, Math.floor(limits.tokens_per_pass / length)))
    passes.push(toPass(slots, length))
    rest = left
  }
  return { passes, scored }
}

interface Item {
  readonly row: Row
  /** Tokens that are read. */
  readonly length: number
  readonly firstPlace: number
}

function check({ tokens, scored, temperature }: Row, index: number, { tokens_per_pass, context, vocabulary }: PackLimits): void {
  const wrong = (what: string) => new Error(`row ${index}: ${what}`)
  if (scored.length !== tokens.length) throw wrong(`has ${tokens.length} tokens and ${scored.length} marks of what is scored`)
  if (scored[0] === 1) throw wrong('its first token cannot be scored: nothing is before it')
  if (!(temperature > 0)) throw wrong(`temperature must be above 0 (got ${temperature})`)
  if (tokens.length > context) throw wrong(`has ${tokens.length} tokens, the model's context ${context}`)
  if (tokens.length > tokens_per_pass + 1) throw wrong(`has ${tokens.length} tokens, more than tokens_per_pass (${tokens_per_pass})`)
  const foreign = tokens.find((token) => token < 0 || token >= vocabulary)
  if (foreign !== undefined) throw wrong(`token ${foreign} is outside of the vocabulary of ${vocabulary}: another tokenizer's?`)
}

/** First fit, longest first. Only rows above half the length open a slot: attention costs a slot's length squared, whatever lies in it. */
function fill(items: readonly Item[], length: number, mostSlots: number): { slots: Item[][]; left: Item[] } {
  const slots: { items: Item[]; free: number }[] = []
  const left: Item[] = []
  for (const item of items) {
    let slot = slots.find(({ free }) => free >= item.length)
    if (!slot && slots.length < mostSlots && 2 * item.length > length) slots.push((slot = { items: [], free: length }))
    if (!slot) {
      left.push(item)
      continue
    }
    slot.items.push(item)
    slot.free -= item.length
  }
  return { slots: slots.map((slot) => slot.items), left }
}

function toPass(slots: readonly Item[][], length: number): Pass {
  const size = slots.length * length
  const [tokens, positions, begins] = [new Int32Array(size), new Int32Array(size), new Int32Array(size)]
  const scored: { source: number; target: number; sharpness: number; place: number }[] = []
  slots.forEach((items, slot) => {
    let begin = 0
    const put = (count: number, at: (i: number) => number) => {
      for (let i = 0; i < count; i++) {
        const place = slot * length + begin + i
        tokens[place] = at(i)
        positions[place] = i
        begins[place] = begin
      }
    }
    for (const { row, length: count, firstPlace } of items) {
      put(count, (i) => row.tokens[i]!)
      let place = firstPlace
      for (let i = 1; i <= count; i++) {
        if (row.scored[i] !== 1) continue
        scored.push({ source: slot * length + begin + i - 1, target: row.tokens[i]!, sharpness: 1 / row.temperature, place: place++ })
      }
      begin += count
    }
    put(length - begin, () => 0)
  })
  return {
    batch: slots.length,
    length,
    tokens,
    positions,
    begins,
    mixed: slots.some((items) => items.length > 1),
    sources: Int32Array.from(scored, ({ source }) => source),
    targets: Int32Array.from(scored, ({ target }) => target),
    sharpness: Float32Array.from(scored, ({ sharpness }) => sharpness),
    places: Int32Array.from(scored, ({ place }) => place),
  }
}
