// Seeded chance, and messy span trees made of it, for property tests.

import type { Span } from '../data/span.ts'
import { spanTable } from '../data/span_table.ts'
import { buildTree, type SpanTree } from '../data/tree.ts'

/** Mulberry32: a small generator with a seed. `random(n)` is an integer from 0 to n - 1. */
export function seeded(seed: number): (n: number) => number {
  let state = seed
  return (n) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * n)
  }
}

export const span = (span_id: string, parent_span_id: string, start: number, end: number): Span => ({
  signal: 'span',
  trace_id: 't',
  span_id,
  parent_span_id,
  remote_parent: false,
  name: span_id,
  kind: 1,
  start_time: start < 0 ? 0n : 1_000_000n + BigInt(start) * 1_000n,
  end_time: end < 0 ? 0n : 1_000_000n + BigInt(end) * 1_000n,
  status: 0,
  status_message: '',
  attributes: {},
  dropped_attributes: 0,
  events: [],
  links: [],
  resource: {},
  scope: { name: '', version: '', attributes: {} },
})

/** Several roots, children that outlive their parents, coarse clocks, spans that were never ended; times are from 0 to about `length` microseconds. */
export function randomSpans(random: (n: number) => number, count: number, length = 40): Span[] {
  return Array.from({ length: count }, (_, i) => {
    const start = random(length)
    const parent = random(6) === 0 ? '' : String(random(count))
    return span(String(i), parent, start, random(8) === 0 ? -1 : start + random(1 + random(length / 2)))
  })
}

/** Node i is the i-th span. Ids may be any texts. */
export function treeOf(spans: readonly Span[]): SpanTree {
  const ids = new Map([['', '']])
  const idOf = (id: string) => {
    if (!ids.has(id)) ids.set(id, ids.size.toString(16).padStart(16, '0'))
    return ids.get(id)!
  }
  const table = spanTable()
  for (const one of spans) table.add({ ...one, span_id: idOf(one.span_id), parent_span_id: idOf(one.parent_span_id) })
  const asTheyCame = Uint32Array.from({ length: table.count }, (_, i) => i)
  return buildTree(table, asTheyCame, asTheyCame)
}
