// The run of fixtures/rl/13: a tool, two branches side by side, and an answer.

import { readFileSync } from 'node:fs'

import type { SpanTree } from '../data/tree.ts'
import { span, treeOf } from './random.ts'

interface Fixture {
  readonly spans: readonly {
    readonly id: string
    readonly parent: string | null
    readonly start: number
    readonly end: number
    readonly trained: 0 | 1
  }[]
  readonly reward_events: readonly { readonly source: string; readonly value: number; readonly caused_by: string | null }[]
  readonly expected: Expected
}

interface Expected {
  readonly happens_before: readonly (readonly [string, string])[]
  /** By call, as all that follow. */
  readonly identical_terminal: Readonly<Record<string, number>>
  readonly identical_sum: Readonly<Record<string, number>>
  readonly depth_to_terminal: Readonly<Record<string, number>>
  readonly 'causal_return_to_go_gamma1.0': Readonly<Record<string, number>>
  readonly 'causal_return_to_go_gamma0.9': Readonly<Record<string, number>>
  readonly 'time_ordered_return_to_go_gamma1.0': Readonly<Record<string, number>>
}

const { spans, reward_events, expected } = JSON.parse(readFileSync('test/fixtures/rl/13_span_tree_credit.json', 'utf8')) as Fixture

export const spanTree: {
  readonly tree: SpanTree
  /** Of each node. */
  readonly ids: readonly string[]
  /** Nodes of the calls that are trained. */
  readonly trained: readonly number[]
  readonly reward_events: Fixture['reward_events']
  readonly expected: Expected
} = {
  tree: treeOf(spans.map(({ id, parent, start, end }) => span(id, parent ?? '', start, end))),
  ids: spans.map(({ id }) => id),
  trained: spans.flatMap(({ trained }, node) => (trained ? [node] : [])),
  reward_events,
  expected,
}
