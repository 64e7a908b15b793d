import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

import type { Rollout } from '../data/rollout.ts'
import { logBatch, rollout, spanBatch } from '../test/conformance.ts'
import { traceIdOf, type SpanSpec } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())
beforeEach(async () => {
  for (const table of ['spans', 'rollouts', 'rollout_members']) await storage.client.command({ query: `TRUNCATE TABLE ${table}` })
})

const key = (rollout: string, attempt = '') => `${rollout}\u0000${attempt}`

/** Stores one span for each id of a trace, with a hint. */
const store = (trace: string, ids: readonly string[], hint = '') =>
  storage.insertSpans([spanBatch(ids.map((id): SpanSpec => ({ id, trace })))], [ids.map(() => hint)])

async function close(rollout_id: string, spans: number, over: Partial<Omit<Rollout, 'calls'>> = {}): Promise<void> {
  const one = rollout({ rollout_id, attempt_id: '', calls: 0, spans, covered_until: Date.now(), trace_ids: [], ...over })
  await storage.writeRevision([one])
  await storage.commit([one])
}

const uncovered = async () => (await storage.uncovered()).map(({ trace_id, hints }) => ({ trace_id, hints }))

test('a trace is uncovered until a revision of its rollout is committed', async () => {
  await store('t', ['a', 'b'])
  const [found] = await storage.uncovered()
  expect(found).toEqual({
    trace_id: traceIdOf('t'),
    hints: [],
    first_received_at: found!.last_received_at,
    last_received_at: expect.any(Number),
  })
  const one = rollout({
    rollout_id: traceIdOf('t'),
    attempt_id: '',
    calls: 0,
    spans: 2,
    covered_until: Date.now(),
    trace_ids: [traceIdOf('t')],
  })
  await storage.writeRevision([one])
  expect(await uncovered()).toHaveLength(1)
  await storage.commit([one])
  expect(await uncovered()).toEqual([])
})

test('late spans make a trace uncovered again', async () => {
  await store('t', ['a'])
  await close(traceIdOf('t'), 1, { trace_ids: [traceIdOf('t')] })
  expect(await uncovered()).toEqual([])
  await store('t', ['b'])
  expect(await uncovered()).toEqual([{ trace_id: traceIdOf('t'), hints: [] }])
})

test('a span that arrived earlier than what was covered, but was not among it, is found by number', async () => {
  await store('t', ['a', 'b'])
  await close(traceIdOf('t'), 1, { trace_ids: [traceIdOf('t')] })
  expect(await uncovered()).toEqual([{ trace_id: traceIdOf('t'), hints: [] }])
})

test('a span that is stored twice counts once', async () => {
  await store('t', ['a'])
  await store('t', ['a'])
  await close(traceIdOf('t'), 1, { trace_ids: [traceIdOf('t')] })
  expect(await uncovered()).toEqual([])
})

test('hints say which rollout a span belongs to, across traces', async () => {
  await store('t1', ['a'], key('r', '1'))
  await store('t2', ['b'], key('r', '1'))
  await store('t3', ['c'], key('other'))
  await close('r', 2, { attempt_id: '1', trace_ids: [traceIdOf('t1'), traceIdOf('t2')] })
  expect(await uncovered()).toEqual([{ trace_id: traceIdOf('t3'), hints: [key('other')] }])
  await store('t2', ['d'], key('r', '1'))
  expect((await uncovered()).map(({ trace_id }) => trace_id).toSorted()).toEqual(
    [traceIdOf('t1'), traceIdOf('t2'), traceIdOf('t3')].toSorted(),
  )
})

test('a span without a hint belongs where its trace does', async () => {
  await store('t', ['a'], key('r'))
  await store('t', ['b'])
  await close('r', 2, { trace_ids: [traceIdOf('t')] })
  expect(await uncovered()).toEqual([])
  await store('t', ['c'])
  expect(await uncovered()).toEqual([{ trace_id: traceIdOf('t'), hints: [key('r')] }])
})

test('a log record outside a trace is uncovered under its hint, and of no interest without one', async () => {
  await storage.insertSpans([logBatch()], [['']])
  expect(await uncovered()).toEqual([])
  await storage.insertSpans([logBatch()], [[key('r1')]])
  expect(await uncovered()).toEqual([{ trace_id: 'r1/', hints: [key('r1')] }])
  expect(await storage.readItems(['r1/'])).toHaveLength(1)
})
