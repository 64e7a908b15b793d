// The span tree of a rollout as flat arrays, and the order of events in it. Iterative throughout:
// a tree may be 10,000 deep.

import type { Span } from './span.ts'

/** Node i is the i-th span. Times are microseconds since the rollout's first start. */
export interface SpanTree {
  readonly count: number
  /** -1 for a root, and for a span whose parent is missing, is itself, or is below it. */
  readonly parent: Int32Array
  readonly start: Float64Array
  /** Same as `start` for a span that was never ended. */
  readonly end: Float64Array
}

export function buildTree(_spans: readonly Span[]): SpanTree {
  throw new Error('not written yet')
}
