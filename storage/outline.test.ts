import { expect, test } from 'vitest'

import type { Span } from '../data/span.ts'
import { causalityOf } from '../data/causality.ts'
import { rollout } from '../test/conformance.ts'
import { treeOf } from '../test/random.ts'
import { outline } from './outline.ts'

/** A span of a tree; times in microseconds. */
const span = (span_id: string, parent_span_id: string, start: number, end: number): Span =>
  ({ span_id, parent_span_id, trace_id: 't', start_time: BigInt(1_001 + start) * 1_000n, end_time: BigInt(1_001 + end) * 1_000n }) as Span

test('only what leads to calls, tools and rewards is kept, in its order', () => {
  const tree = treeOf([
    span('root', '', 0, 100),
    span('noise', 'root', 1, 2),
    span('agent', 'root', 5, 90),
    span('call', 'agent', 10, 20),
    span('http', 'call', 11, 19),
    span('tool', 'agent', 30, 40),
  ])
  const one = rollout({ calls: 1 })
  const [transition] = one.transitions
  const call = { ...transition!.call, span_id: 'call', node: 3, agent: 'solver' }
  const tool = {
    ...call,
    kind: 'tool' as const,
    name: 'search',
    arguments: '{"b":1,"a":2}',
    node: 5,
    inferred: false,
    requested_by: 'call',
    air_class: 'ok' as const,
    verdict: { status: 'ok' as const, evidence: 'result' },
  }
  const { outline: kept } = outline({ ...one, tree, calls: [call], tools: [tool], transitions: [{ ...transition!, span_id: 'call' }] })
  expect(kept.nodes).toEqual({ parent: [-1, 0, 1, 1], start: [0, 5, 10, 30], end: [100, 90, 20, 40] })
  expect(kept.calls).toEqual([{ node: 2, span_id: 'call', agent: 'solver', step: 0 }])
  expect(kept.tools).toEqual([
    { node: 3, name: 'search', key: 'search({"a":2,"b":1})', inferred: false, requested_by: 'call', air_class: 'ok' },
  ])
})

test('a span without duration lasts as long as what was below it, also when that is left out', () => {
  const spans = [span('root', '', 0, 0), span('agent', 'root', 5, 5), span('deep', 'agent', 7, 60), span('call', 'root', 70, 80)]
  const tree = treeOf(spans)
  const one = rollout({ calls: 2 })
  const calls = [
    { ...one.transitions[0]!.call, span_id: 'agent', node: 1 },
    { ...one.transitions[1]!.call, span_id: 'call', node: 3 },
  ]
  const { nodes } = outline({ ...one, tree, calls, tools: [], rewards: [] }).outline
  expect(nodes).toEqual({ parent: [-1, 0, 0], start: [0, 5, 70], end: [80, 60, 80] })
  expect(causalityOf(tree).precedes(1, 3)).toBe(true)
})
