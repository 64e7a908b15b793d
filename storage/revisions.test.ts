import { afterAll, beforeAll, expect, test } from 'vitest'

import type { OpenRollout } from '../data/open_rollout.ts'
import { routeKey } from '../data/routing.ts'
import { logBatch, spanBatch } from '../test/conformance.ts'
import { assembling } from '../test/read.ts'
import { chat, endOf, traceIdOf } from '../test/spans.ts'
import { allRevisions } from '../test/revisions.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { Unassemblable } from './revisions.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

/** A rollout that is due, all of whose items are in storage. */
function due(rollout_id: string, trace: string, more: Partial<OpenRollout> = {}) {
  const key = routeKey(rollout_id, '')
  const now = Date.now()
  const rollout = {
    key,
    traces: new Set([traceIdOf(trace)]),
    held: null,
    bytes: 0,
    count: 0,
    first_at: now,
    last_at: now,
    rooted: true,
    ended: false,
    late: false,
    due: false,
    doubtful: true,
    ...more,
  }
  return { rollout, closed_by: 'root' as const }
}

async function next(...which: Parameters<typeof due>) {
  const { revisions } = await allRevisions(storage, [due(...which)], assembling)
  await storage.writeRevision(revisions)
  await storage.commit(revisions)
  return revisions
}

test('a revision for a late span covers all that came before, log records outside of any trace included', async () => {
  const hint = routeKey('r', '')
  await storage.insertSpans(
    [spanBatch([{ id: 'run', trace: 't' }, chat('call', { parent: 'run', trace: 't' })]), logBatch(endOf('r', 'failed'))],
    [[hint, hint], [hint]],
  )
  expect(await next('r', 't', { traces: new Set([traceIdOf('t'), 'r/']) })).toMatchObject([{ spans: 3, status: 'failed' }])
  await storage.insertSpans([spanBatch([{ id: 'late', parent: 'run', trace: 't' }])], [[hint]])
  expect(await next('r', 't')).toMatchObject([{ spans: 4, status: 'failed', closed_by: 'late' }])
  expect(await storage.uncovered()).toEqual([])
})

test('a number that a process before this one may be using still is not used again', async () => {
  await storage.insertSpans([spanBatch([{ id: 'one', trace: 'resumed' }])], [])
  const [first] = await next(traceIdOf('resumed'), 'resumed')
  expect(first!.revision).toBe(2)
})

test('nor is one that left no trace in storage', async () => {
  await storage.insertSpans([spanBatch([{ id: 'a', trace: 'empty' }])], [])
  const empty = due(traceIdOf('empty'), 'empty', { held: { items: [], chains: [] }, doubtful: false })
  const first = await allRevisions(storage, [empty], assembling)
  await storage.writeRevision(first.revisions)
  const second = await allRevisions(storage, [empty], assembling)
  expect([first, second].map(({ revisions }) => revisions[0]!.revision)).toEqual([1, 2])
})

test('what this process knows from its first span on and holds no more is read back, and is a first revision', async () => {
  await storage.insertSpans([spanBatch([{ id: 'early', trace: 'released' }])], [])
  await storage.insertSpans([spanBatch([{ id: 'later', trace: 'released' }])], [])
  const [first] = await next(traceIdOf('released'), 'released', { doubtful: false, count: 2, bytes: 1_000 })
  expect(first).toMatchObject({ revision: 1, spans: 2, closed_by: 'root' })
})

test('a trace that was closed by itself is taken over once, also when the process was killed in the middle of it', async () => {
  const trace_id = traceIdOf('outgrown')
  await storage.insertSpans([spanBatch([{ id: 'before', trace: 'outgrown' }])], [])
  await next(trace_id, 'outgrown')
  await storage.insertSpans([spanBatch([{ id: 'after', trace: 'outgrown' }])], [[routeKey('named', '')]])
  const expected = [
    { rollout_id: 'named', spans: 2 },
    { rollout_id: trace_id, spans: 0 },
  ]
  expect((await allRevisions(storage, [due('named', 'outgrown')], assembling)).revisions).toMatchObject(expected)
  await storage.join([{ trace_id, rollout_id: 'named', attempt_id: '' }])
  expect(await next('named', 'outgrown')).toMatchObject(expected)
  expect((await storage.uncovered()).filter((one) => one.trace_id === trace_id)).toEqual([])
})

test('what is left of a trace of its own and the rollout that it turned out to belong to are closed as one', async () => {
  await storage.insertSpans([spanBatch([{ id: 'half', trace: 'halves' }])], [])
  await storage.insertSpans([spanBatch([{ id: 'other half', trace: 'halves' }])], [[routeKey('whole', '')]])
  const both = [due(traceIdOf('halves'), 'halves'), due('whole', 'halves')]
  expect((await allRevisions(storage, both, assembling)).revisions).toMatchObject([{ spans: 2, rollout_id: 'whole' }])
})

test('a rollout that a defect keeps from being read says so, apart from a store that is away', async () => {
  await storage.insertSpans([spanBatch([{ id: 'odd', trace: 'odd' }])], [])
  const broken = {
    name: 'broken',
    signs: { names: /./ },
    matches: () => {
      throw new Error('a defect')
    },
    read: () => null,
  }
  await expect(allRevisions(storage, [due(traceIdOf('odd'), 'odd')], { ...assembling, dialects: [broken] })).rejects.toThrow(Unassemblable)
})
