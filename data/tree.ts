// The span tree of a rollout as flat arrays. Iterative throughout: a tree may be 10,000 deep.
// What happened before what in it is causality.ts.

import type { Span } from './span.ts'

const MILLISECOND = 1_000_000n

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

/** A parent is looked for in the span's own trace; where several spans carry one id, the first is the parent of all. */
export function buildTree(spans: readonly Span[], nodes = nodesById(spans)): SpanTree {
  const count = spans.length
  const parent = new Int32Array(count).fill(-1)
  const start = new Float64Array(count)
  const end = new Float64Array(count)
  const first = firstStart(spans)
  let orphans = 0
  let cycles = 0

  for (let i = 0; i < count; i++) {
    const span = spans[i]!
    start[i] = microseconds(first, span.start_time || span.end_time || first)
    end[i] = Math.max(start[i]!, microseconds(first, sureEnd(span) || span.start_time || first))
    if (span.parent_span_id === '') continue
    if (span.parent_span_id === span.span_id) cycles++
    else parent[i] = nodes.get(span.trace_id)!.get(span.parent_span_id) ?? -1
    if (parent[i] === -1 && span.parent_span_id !== span.span_id) orphans++
  }
  cycles += cutCycles(parent, start)
  return { count, origin: first, parent, start, end, orphans, cycles }
}

/**
 * The SDK for JavaScript takes a start from a clock of whole milliseconds, which lags by up to one, and adds the exact duration: what
 * came next seems to have begun before that end. Behind such a start only the end's milliseconds are sure.
 */
function sureEnd({ start_time, end_time }: Span): bigint {
  return start_time > 0n && start_time % MILLISECOND === 0n ? end_time - (end_time % MILLISECOND) : end_time
}

function firstStart(spans: readonly Span[]): bigint {
  let first = 0n
  for (const { start_time } of spans) if (start_time !== 0n && (first === 0n || start_time < first)) first = start_time
  return first
}

/** By trace and span; the first of an id. */
export function nodesById(spans: readonly Span[]): Map<string, Map<string, number>> {
  const traces = new Map<string, Map<string, number>>()
  // Backwards, so that the first is what stays.
  for (let i = spans.length - 1; i >= 0; i--) {
    const { trace_id, span_id } = spans[i]!
    let nodes = traces.get(trace_id)
    if (!nodes) traces.set(trace_id, (nodes = new Map()))
    nodes.set(span_id, i)
  }
  return traces
}

const microseconds = (first: bigint, time: bigint) => Number(time - first) / 1_000

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
