import { expect, test } from 'vitest'

import { conforms, configure, logBatch, rollout, spanBatch, testContext } from '../test/conformance.ts'
import type { Item, Signal } from '../pipeline/component.ts'
import debug from './debug.ts'

conforms(debug)

async function shown(verbosity: string, signal: Signal, items: readonly Item[]): Promise<{ text: string; fields?: unknown }[]> {
  const context = testContext()
  await configure(debug, { verbosity }, context).export(items, signal, new AbortController().signal)
  return context.lines
}

const spans = () => [
  spanBatch([{ id: 'a', name: 'plan' }]),
  spanBatch([{ id: 'b', name: 'act', attributes: { tool: 'search', tries: 2 } }]),
]

test('basic counts what passes', async () => {
  expect(await shown('basic', 'traces', spans())).toEqual([{ text: 'info Traces', fields: { 'resource spans': 2, spans: 2 } }])
  expect(await shown('basic', 'logs', [logBatch()])).toEqual([{ text: 'info Logs', fields: { 'resource logs': 1, 'log records': 1 } }])
  expect(await shown('basic', 'rollouts', [rollout({ calls: 2 })])).toEqual([
    { text: 'info Rollouts', fields: { rollouts: 1, calls: 2, transitions: 2, rejects: 0 } },
  ])
})

test('normal adds a line for each item', async () => {
  const [, lines] = await shown('normal', 'traces', spans())
  expect(lines!.text.split('\n')).toEqual([
    expect.stringMatching(/^info plan [0-9a-f]{32} [0-9a-f]{16}$/),
    expect.stringMatching(/^act [0-9a-f]{32} [0-9a-f]{16} tool=search tries=2$/),
  ])
  const [, records] = await shown('normal', 'logs', [logBatch()])
  expect(records!.text).toBe('info leyden.rollout.end leyden.rollout.status=succeeded')
  const [, rollouts] = await shown('normal', 'rollouts', [rollout({ reward: 1 })])
  expect(rollouts!.text).toBe('info r1 a1 status=succeeded outcome=1 calls=3 transitions=3 rejects=0')
})

test('detailed shows everything', async () => {
  const [, all] = await shown('detailed', 'traces', spans())
  expect(all!.text).toContain("name: 'act'")
  expect(all!.text).toContain("tool: 'search'")
  const [, rollouts] = await shown('detailed', 'rollouts', [rollout()])
  expect(rollouts!.text).toContain("text: 'question 2'")
})
