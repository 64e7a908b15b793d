// One head of one token over all tokens before it, whose keys and values lie in blocks. Half of a small policy's time goes here, so four tokens are
// taken at a time: what is loaded once serves four sums.

import { BLOCK } from './kv_cache.ts'

/** A head's keys and values within the blocks of a layer: [blocks, BLOCK, kvWidth], of which `width` numbers from `offset` on are the head's. */
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
  let peak = -Infinity
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
        peak = Math.max(peak, scores[t]!, scores[t + 1]!, scores[t + 2]!, scores[t + 3]!)
        t += 4
      } else {
        let s = 0
        for (let i = 0; i < width; i++) s += query[from + i]! * keys[k0 + i]!
        scores[t] = s * scale
        peak = Math.max(peak, scores[t]!)
        t++
      }
    }
  }

  let total = 0
  for (let t = 0; t < count; t++) total += scores[t] = Math.exp(scores[t]! - peak)
  const share = 1 / total

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
