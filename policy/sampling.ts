// Draws a token from logits. Temperature, then top_k, then top_p, then what is left is made to sum to one: its logarithm is the
// log-probability that training needs. Left out: penalties and min_p, which would have to be undone in the importance weights.

import type { Sampling } from './decoding.ts'

export interface Draw {
  readonly id: number
  /** Of the distribution drawn from; at temperature 0, of the softmax at temperature 1. */
  readonly logprob: number
  /** The likeliest of that distribution, at most `top_logprobs`: fewer where top_k or top_p leave fewer. */
  readonly top: readonly { readonly id: number; readonly logprob: number }[]
  /** How much of the distribution `allowed` left: 1 where all is allowed. */
  readonly share: number
}

type How = Pick<Sampling, 'temperature' | 'top_p' | 'top_k' | 'top_logprobs'>

/** One for all draws: the garbage of a new one each time costs as much as the draw. */
let scratch = new Float64Array(0)
const scratchOf = (size: number): Float64Array => (scratch.length === size ? scratch : (scratch = new Float64Array(size)))

/**
 * `logits` [V] are not changed. `uniform`: from 0 to below 1. Throws when the logits are not numbers, as after a diverged update.
 * @param allowed bits of the tokens that may be drawn, at least one, 32 in a word; all where left out
 */
export function drawToken(
  logits: Float32Array,
  { temperature, top_p, top_k, top_logprobs }: How,
  uniform: number,
  allowed?: Uint32Array,
): Draw {
  const best = likeliest(logits, allowed)
  const peak = logits[best]!
  if (!Number.isFinite(peak)) throw new Error('the policy gives no numbers (NaN or Inf in its logits)')
  const scale = temperature === 0 ? 1 : 1 / temperature
  const weights = scratchOf(logits.length)
  let total = 0
  for (let i = 0; i < weights.length; i++) total += weights[i] = Math.exp((logits[i]! - peak) * scale)
  if (Number.isNaN(total)) throw new Error('the policy gives no numbers (NaN in its logits)')
  const all = total
  if (allowed) total = leave(weights, allowed)

  const kept = temperature === 0 ? null : keep(weights, total, top_k, top_p)
  const mass = kept ? kept.reduce((sum, i) => sum + weights[i]!, 0) : total
  const logMass = Math.log(mass)
  const logprobOf = (id: number) => (logits[id]! - peak) * scale - logMass
  const id = temperature === 0 ? best : kept ? pick(kept, weights, mass * uniform) : pickAny(weights, total * uniform)
  const top = top_logprobs === 0 ? [] : (kept ?? highest(weights, top_logprobs)).slice(0, top_logprobs)
  return { id, logprob: logprobOf(id), top: top.map((id) => ({ id, logprob: logprobOf(id) })), share: allowed ? total / all : 1 }
}

const isIn = (allowed: Uint32Array, id: number): boolean => ((allowed[id >>> 5] ?? 0) & (1 << (id & 31))) !== 0

/** The first of the highest. NaN, which compares with nothing, shows in the sum. */
function likeliest(logits: Float32Array, allowed: Uint32Array | undefined): number {
  let best = 0
  while (allowed && !isIn(allowed, best)) best++
  for (let i = best + 1; i < logits.length; i++) if (logits[i]! > logits[best]! && (!allowed || isIn(allowed, i))) best = i
  return best
}

/** Only what is allowed keeps its weight; their sum. */
function leave(weights: Float64Array, allowed: Uint32Array): number {
  let total = 0
  for (let i = 0; i < weights.length; i++) {
    if (isIn(allowed, i)) total += weights[i]!
    else weights[i] = 0
  }
  return total
}

/** The tokens that top_k and top_p leave, likeliest first (equal ones by id); null where they leave all. */
function keep(weights: Float64Array, total: number, top_k: number, top_p: number): number[] | null {
  const limited = top_k > 0 && top_k < weights.length
  if (!limited && top_p >= 1) return null
  // What is rarer than (1 - top_p) / V cannot be in the nucleus: all of it together weighs less than what may be left out.
  const floor = limited ? 0 : (total * (1 - top_p)) / weights.length
  const order = limited ? highest(weights, top_k) : sorted(weights, floor)
  if (top_p >= 1) return order
  const mass = limited ? order.reduce((sum, i) => sum + weights[i]!, 0) : total
  let sum = 0
  let count = 0
  while (count < order.length && (count === 0 || sum < top_p * mass)) sum += weights[order[count++]!]!
  return order.slice(0, count)
}

/** The `count` heaviest, heaviest first, equal ones by id. */
function highest(weights: Float64Array, count: number): number[] {
  const ids: number[] = []
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0 || (ids.length === count && weights[i]! <= weights[ids[count - 1]!]!)) continue
    let place = ids.length
    while (place > 0 && weights[ids[place - 1]!]! < weights[i]!) place--
    ids.splice(place, 0, i)
    if (ids.length > count) ids.pop()
  }
  return ids
}

/** Those that weigh at least `floor`, heaviest first, equal ones by id. */
function sorted(weights: Float64Array, floor: number): number[] {
  const ids: number[] = []
  for (let i = 0; i < weights.length; i++) if (weights[i]! >= floor && weights[i] !== 0) ids.push(i)
  return ids.sort((a, b) => weights[b]! - weights[a]! || a - b)
}

function pick(ids: readonly number[], weights: Float64Array, at: number): number {
  let sum = 0
  for (const id of ids) if ((sum += weights[id]!) > at) return id
  return ids.at(-1)!
}

/** Rounding may leave the sum short of `at`; then the last that weighs anything. */
function pickAny(weights: Float64Array, at: number): number {
  let sum = 0
  let last = 0
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0) continue
    last = i
    if ((sum += weights[i]!) > at) break
  }
  return last
}

/** Uniform numbers from 0 to below 1 by a seed: xoshiro128** 1.1 (Blackman and Vigna, 2018), its state filled by splitmix32 from both halves of the seed. */
export function uniforms(seed: number): () => number {
  let mix = (seed | 0) ^ Math.imul(Math.floor(seed / 2 ** 32) | 0, 0x85ebca6b)
  const word = () => {
    mix = (mix + 0x9e3779b9) | 0
    let z = mix ^ (mix >>> 16)
    z = Math.imul(z, 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) | 0
  }
  const s = Int32Array.of(word(), word(), word(), word())
  const next = () => {
    const result = Math.imul(rotate(Math.imul(s[1]!, 5), 7), 9)
    const t = s[1]! << 9
    s[2]! ^= s[0]!
    s[3]! ^= s[1]!
    s[1]! ^= s[2]!
    s[0]! ^= s[3]!
    s[2]! ^= t
    s[3] = rotate(s[3]!, 11)
    return result >>> 0
  }
  return () => (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53
}

const rotate = (x: number, by: number): number => (x << by) | (x >>> (32 - by))
