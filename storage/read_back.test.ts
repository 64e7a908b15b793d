import { afterAll, beforeAll, expect, test } from 'vitest'

import type { OpenRollout } from '../data/open_rollout.ts'
import type { Taken } from '../data/open_rollouts.ts'
import { readRaw } from '../data/read.ts'
import { routeKey } from '../data/routing.ts'
import { rawItem } from '../data/span_batch.ts'
import credit_assignment from '../processors/credit_assignment.ts'
import policy_calls from '../processors/policy_calls.ts'
import { configure, spanBatch } from '../test/conformance.ts'
import { assembling } from '../test/read.ts'
import { reward, spanIdOf, traceIdOf, type SpanSpec } from '../test/spans.ts'
import { allRevisions } from '../test/revisions.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

/** A trace that is due as a rollout of its own; what is held of it, if anything is, came just now. */
function due(trace: string, held: OpenRollout['held'] = null): Taken {
  const now = Date.now()
  const traces = new Set([traceIdOf(trace)])
  const rollout = {
    key: routeKey(traceIdOf(trace), ''),
    traces,
    held,
    bytes: 0,
    count: held?.items.length ?? 0,
    first_at: now,
    last_at: now,
  }
  return { rollout: { ...rollout, rooted: true, ended: false, late: false, due: false, doubtful: true }, closed_by: 'root' }
}

/** Spans of so many bytes each, one millisecond after the other. */
const spansOf = (trace: string, count: number, size: number): SpanSpec[] =>
  Array.from({ length: count }, (_, i) => ({
    id: `${trace}${i}`,
    trace,
    parent: i > 0 ? `${trace}0` : '',
    at: i,
    attributes: { big: 'x'.repeat(size) },
  }))

const processors = [configure(policy_calls), configure(credit_assignment)]

async function next(limits: object, ...which: Taken[]) {
  const found = await allRevisions(storage, which, { ...assembling, ...limits })
  await storage.writeRevision(found.revisions.map((one) => processors.reduce((rollout, { process }) => process(rollout), one)))
  await storage.commit(found.revisions)
  return found
}

test('of many items those that come first by trace and time are read, up to a number and up to a size', async () => {
  await storage.insertSpans([spanBatch([...spansOf('t', 5, 1_000).reverse(), ...spansOf('t', 1, 1_000)])], [])
  const read = async (most: { items: number; bytes: number }) => {
    const items = (await storage.readItems([traceIdOf('t')], { most })).map(readRaw)
    return items.map((item) => item.signal === 'span' && item.span_id)
  }
  const first = (n: number) => Array.from({ length: n }, (_, i) => spanIdOf(`t${i}`))
  expect(await read({ items: 3, bytes: 1e9 })).toEqual(first(2)) // one was stored twice
  expect(await read({ items: 1e9, bytes: 4_000 })).toEqual(first(3))
  expect(await read({ items: 1e9, bytes: 1e9 })).toEqual(first(5))
  expect(await read({ items: 0, bytes: 1e9 })).toEqual([])
  expect(await storage.sizesOf([traceIdOf('t')])).toMatchObject([{ trace_id: traceIdOf('t'), key: '', items: 6 }])
})

test('what would be too much at once is read in portions', async () => {
  const names = ['a', 'b', 'c', 'd']
  for (const name of names) await storage.insertSpans([spanBatch(spansOf(name, name === 'c' ? 7 : 2, 1 << 20))], [])
  const { revisions, portions, beyond } = await next({}, ...names.map((name) => due(name)))
  expect(revisions).toMatchObject(names.map((name) => ({ rollout_id: traceIdOf(name), spans: name === 'c' ? 7 : 2, complete: true })))
  expect(portions).toEqual([['a'], ['b'], ['c'], ['d']].map((some) => some.map(traceIdOf)))
  expect(beyond).toBe(0)
})

test('of a trace that several rollouts share, each has its own', async () => {
  const keys = ['r1', 'r2'].map((id) => routeKey(id, ''))
  const owner = (i: number) => (i % 5 === 0 ? 0 : 1)
  const spans = spansOf('shared', 10, 1_000).map((span, i) => ({ ...span, attributes: { 'leyden.rollout.id': ['r1', 'r2'][owner(i)]! } }))
  await storage.insertSpans([spanBatch(spans)], [spans.map((_, i) => keys[owner(i)]!)])
  const both = keys.map((key) => ({ ...due('shared'), rollout: { ...due('shared').rollout, key } }))
  const { revisions, beyond } = await next({ max_spans: 5 }, ...both)
  expect(revisions).toMatchObject([
    { rollout_id: 'r1', spans: 2, complete: true },
    { rollout_id: 'r2', spans: 5, closed_by: 'max_spans' },
  ])
  expect(beyond).toBe(3)
})

test.each(['max_spans', 'max_bytes'] as const)(
  'a rollout beyond %s is made of its beginning, and takes in nothing more but rewards',
  async (limit) => {
    await storage.insertSpans([spanBatch(spansOf(limit, 20, 1_000))], [])
    const limits = limit === 'max_spans' ? { max_spans: 5 } : { max_bytes: 5_000 }
    expect(await next(limits, due(limit))).toMatchObject({
      revisions: [{ spans: 5, closed_by: limit, complete: false }],
      beyond: 15,
    })

    const late = spanBatch([{ id: 'late', trace: limit, parent: `${limit}0` }, reward('r', 1, { trace: limit, parent: `${limit}0` })])
    await storage.insertSpans([late], [])
    const held = { items: [0, 1].map((i) => rawItem(late, i)), chains: [] }
    expect(await next(limits, due(limit, held))).toMatchObject({ revisions: [], beyond: 2 })
    expect(await next(limits, due(limit))).toMatchObject({ revisions: [], beyond: 0 })
    const row = `SELECT toUInt32(revision) AS revision, toUInt32(spans) AS spans, outcome FROM rollouts FINAL WHERE rollout_id = '${traceIdOf(limit)}'`
    expect(await storage.rows(row)).toEqual([{ revision: 2, spans: 5, outcome: 1 }])
  },
)
