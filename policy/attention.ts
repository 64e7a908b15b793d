// Heads of one token over all tokens before it, whose keys and values lie in blocks. Half of a small policy's time goes here, so four tokens are
// taken at a time, and two heads where they share keys: what is loaded once serves eight sums.

import { BLOCK } from './kv_cache.ts'

/** Keys and values of a head, or of several that share them, within the blocks of a layer: [blocks, BLOCK, kvWidth], of which `width` numbers from `offset` on are the head's. */
export interface HeadCache {
  readonly keys: Float32Array
  readonly values: Float32Array
  readonly kvWidth: number
  readonly offset: number
  readonly width: number
}

/**
 * `query` [width] at `from` and `out` [width] at `to`. `blocks`: those of the sequence, of which the first `count` tokens are seen.
 * `scores` has room for `count`.
 */
export function attendHead(
  { keys, values, kvWidth, offset, width }: HeadCache,
  blocks: readonly number[],
  count: number,
  query: Float32Array,
  from: number,
  scores: Float32Array,
  out: Float32Array,
  to: number,
): void {
  const scale = 1 / Math.sqrt(width)
  for (let t = 0; t < count;) {
    const block = blocks[Math.floor(t / BLOCK)]! * BLOCK * kvWidth + offset
    for (const end = Math.min(count, t + BLOCK); t < end;) {
      const k0 = block + (t % BLOCK) * kvWidth
      if (t + 4 <= end) {
        const k1 = k0 + kvWidth
        const k2 = k1 + kvWidth
        const k3 = k2 + kvWidth
        let s0 = 0
        let s1 = 0
        let s2 = 0
        let s3 = 0
        for (let i = 0; i < width; i++) {
          const q = query[from + i]!
          s0 += q * keys[k0 + i]!
          s1 += q * keys[k1 + i]!
          s2 += q * keys[k2 + i]!
          s3 += q * keys[k3 + i]!
        }
        scores[t] = s0 * scale
        scores[t + 1] = s1 * scale
        scores[t + 2] = s2 * scale
        scores[t + 3] = s3 * scale
        t += 4
      } else {
        let s = 0
        for (let i = 0; i < width; i++) s += query[from + i]! * keys[k0 + i]!
        scores[t] = s * scale
        t++
      }
    }
  }

  const share = softmaxed(scores, 0, count)

  for (let i = 0; i < width; i++) out[to + i] = 0
  for (let t = 0; t < count;) {
    const block = blocks[Math.floor(t / BLOCK)]! * BLOCK * kvWidth + offset
    for (const end = Math.min(count, t + BLOCK); t < end;) {
      const v0 = block + (t % BLOCK) * kvWidth
      const p0 = scores[t]! * share
      if (t + 4 <= end) {
        const v1 = v0 + kvWidth
        const v2 = v1 + kvWidth
        const v3 = v2 + kvWidth
        const p1 = scores[t + 1]! * share
        const p2 = scores[t + 2]! * share
        const p3 = scores[t + 3]! * share
        for (let i = 0; i < width; i++) {
          out[to + i]! += p0 * values[v0 + i]! + p1 * values[v1 + i]! + p2 * values[v2 + i]! + p3 * values[v3 + i]!
        }
        t += 4
      } else {
        for (let i = 0; i < width; i++) out[to + i]! += p0 * values[v0 + i]!
        t++
      }
    }
  }
}

/** Two heads that share keys and values, to the bit as `attendHead` does each: the second's query and output follow the first's. `scores` has room for twice `count`. */
export function attendPair(
  { keys, values, kvWidth, offset, width }: HeadCache,
  blocks: readonly number[],
  count: number,
  query: Float32Array,
  from: number,
  scores: Float32Array,
  out: Float32Array,
  to: number,
): void {
  const scale = 1 / Math.sqrt(width)
  for (let t = 0; t < count;) {
    const block = blocks[Math.floor(t / BLOCK)]! * BLOCK * kvWidth + offset
    for (const end = Math.min(count, t + BLOCK); t < end;) {
      const k0 = block + (t % BLOCK) * kvWidth
      if (t + 4 <= end) {
        const k1 = k0 + kvWidth
        const k2 = k1 + kvWidth
        const k3 = k2 + kvWidth
        let a0 = 0
        let a1 = 0
        let a2 = 0
        let a3 = 0
        let b0 = 0
        let b1 = 0
        let b2 = 0
        let b3 = 0
        for (let i = 0; i < width; i++) {
          const a = query[from + i]!
          const b = query[from + width + i]!
          const x0 = keys[k0 + i]!
          const x1 = keys[k1 + i]!
          const x2 = keys[k2 + i]!
          const x3 = keys[k3 + i]!
          a0 += a * x0
          a1 += a * x1
          a2 += a * x2
          a3 += a * x3
          b0 += b * x0
          b1 += b * x1
          b2 += b * x2
          b3 += b * x3
        }
        scores[t] = a0 * scale
        scores[t + 1] = a1 * scale
        scores[t + 2] = a2 * scale
        scores[t + 3] = a3 * scale
        scores[count + t] = b0 * scale
        scores[count + t + 1] = b1 * scale
        scores[count + t + 2] = b2 * scale
        scores[count + t + 3] = b3 * scale
        t += 4
      } else {
        let a = 0
        let b = 0
        for (let i = 0; i < width; i++) {
          a += query[from + i]! * keys[k0 + i]!
          b += query[from + width + i]! * keys[k0 + i]!
        }
        scores[t] = a * scale
        scores[count + t] = b * scale
        t++
      }
    }
  }

  const shareA = softmaxed(scores, 0, count)
  const shareB = softmaxed(scores, count, 2 * count)

  for (let i = 0; i < 2 * width; i++) out[to + i] = 0
  for (let t = 0; t < count;) {
    const block = blocks[Math.floor(t / BLOCK)]! * BLOCK * kvWidth + offset
    for (const end = Math.min(count, t + BLOCK); t < end;) {
      const v0 = block + (t % BLOCK) * kvWidth
      const a0 = scores[t]! * shareA
      const b0 = scores[count + t]! * shareB
      if (t + 4 <= end) {
        const v1 = v0 + kvWidth
        const v2 = v1 + kvWidth
        const v3 = v2 + kvWidth
        const a1 = scores[t + 1]! * shareA
        const a2 = scores[t + 2]! * shareA
        const a3 = scores[t + 3]! * shareA
        const b1 = scores[count + t + 1]! * shareB
        const b2 = scores[count + t + 2]! * shareB
        const b3 = scores[count + t + 3]! * shareB
        for (let i = 0; i < width; i++) {
          const x0 = values[v0 + i]!
          const x1 = values[v1 + i]!
          const x2 = values[v2 + i]!
          const x3 = values[v3 + i]!
          out[to + i]! += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
          out[to + width + i]! += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        }
        t += 4
      } else {
        for (let i = 0; i < width; i++) {
          out[to + i]! += a0 * values[v0 + i]!
          out[to + width + i]! += b0 * values[v0 + i]!
        }
        t++
      }
    }
  }
}

/** Makes e^(score − the highest) of the scores in [from, to). Gives what each then counts for so that they make 1. */
function softmaxed(scores: Float32Array, from: number, to: number): number {
  let peak = -Infinity
  for (let t = from; t < to; t++) if (scores[t]! > peak) peak = scores[t]!
  let total = 0
  for (let t = from; t < to; t++) total += scores[t] = Math.exp(scores[t]! - peak)
  return 1 / total
}
