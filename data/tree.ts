// The span tree of a rollout as flat arrays. Iterative throughout: a tree may be 10,000 deep.
// What happened before what in it is causality.ts.

import { STRIDE, WORD, type SpanTable } from './span_table.ts'

const MILLISECOND = 1_000_000

/** Node i is the i-th span. Times are microseconds since the rollout's first start. */
export interface SpanTree {
  readonly count: number
  /** Time 0, in nanoseconds since the Unix epoch. */
  readonly origin: bigint
  /** -1 for a root, and for a span whose parent is missing, is itself, or is below it. */
  readonly parent: Int32Array
  readonly start: Float64Array
  /** Same as `start` for a span that was never ended, or that ended before it started. */
  readonly end: Float64Array
  /** Spans whose parent is not among the spans. */
  readonly orphans: number
  /** Parent links that were cut because a span would have been its own ancestor. */
  readonly cycles: number
}

/**
 * A parent is looked for in the span's own trace.
 * @param order the span of each node, by its number in the table
 * @param nodes the node of each span
 */
export function buildTree({ count, words, find }: SpanTable, order: Uint32Array, nodes: Uint32Array): SpanTree {
  const parent = new Int32Array(count).fill(-1)
  const start = new Float64Array(count)
  const end = new Float64Array(count)
  const first = earliestStart(words, count)
  let orphans = 0
  let cycles = 0

  for (let node = 0; node < count; node++) {
    const at = order[node]! * STRIDE
    start[node] = microseconds(words, isZero(words, at + WORD.start) ? at + WORD.end : at + WORD.start, first)
    end[node] = Math.max(start[node]!, microseconds(words, at + WORD.end, first, surplus(words, at)))
    if (isZero(words, at + WORD.parent)) continue
    const high = words[at + WORD.parent]!
    const low = words[at + WORD.parent + 1]!
    const isOwn = high === words[at + WORD.id] && low === words[at + WORD.id + 1]
    const found = isOwn ? -1 : find(words[at + WORD.trace]!, high, low)
    if (found !== -1) parent[node] = nodes[found]!
    else if (isOwn) cycles++
    else orphans++
  }
  cycles += cutCycles(parent, start)
  return { count, origin: first === -1 ? 0n : bigintAt(words, first), parent, start, end, orphans, cycles }
}

const HIGH = 2 ** 32
const isZero = (words: Uint32Array, at: number): boolean => words[at] === 0 && words[at + 1] === 0
const bigintAt = (words: Uint32Array, at: number): bigint => (BigInt(words[at]!) << 32n) | BigInt(words[at + 1]!)

/** Where the earliest start of all stands; -1 where no span has one. */
function earliestStart(words: Uint32Array, count: number): number {
  let first = -1
  for (let at = WORD.start; at < count * STRIDE; at += STRIDE) {
    if (isZero(words, at)) continue
    if (first === -1 || (words[at]! - words[first]! || words[at + 1]! - words[first + 1]!) < 0) first = at
  }
  return first
}

/** From the first start to a time less some nanoseconds; 0 where the exporter left the time out. */
function microseconds(words: Uint32Array, at: number, first: number, less = 0): number {
  if (isZero(words, at)) return 0
  const high = words[at]! - (first === -1 ? 0 : words[first]!)
  const low = words[at + 1]! - (first === -1 ? 0 : words[first + 1]!)
  return (high * HIGH + (low - less)) / 1_000
}

/**
 * The SDK for JavaScript takes a start from a clock of whole milliseconds, which lags by up to one, and adds the exact duration: what
 * came next seems to have begun before that end. Behind such a start only the end's milliseconds are sure: so many nanoseconds are not.
 */
const surplus = (words: Uint32Array, at: number): number =>
  isZero(words, at + WORD.start) || inMillisecond(words, at + WORD.start) > 0 ? 0 : inMillisecond(words, at + WORD.end)

const inMillisecond = (words: Uint32Array, at: number): number =>
  ((words[at]! % MILLISECOND) * (HIGH % MILLISECOND) + words[at + 1]!) % MILLISECOND

/** Makes the earliest-starting span of every cycle a root. Each node is walked over once. */
function cutCycles(parent: Int32Array, start: Float64Array): number {
  const walk = new Int32Array(parent.length) // the walk that first came by, 0 for none yet
  let cycles = 0
  for (let i = 0; i < parent.length; i++) {
    let node = i
    while (node !== -1 && walk[node] === 0) {
      walk[node] = i + 1
      node = parent[node]!
    }
    if (node === -1 || walk[node] !== i + 1) continue
    let root = node
    for (let n = parent[node]!; n !== node; n = parent[n]!) if (start[n]! < start[root]!) root = n
    parent[root] = -1
    cycles++
  }
  return cycles
}
