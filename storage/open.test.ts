import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { aCall, aRollout } from '../test/rollouts.ts'
import { spanIdOf, traceIdOf, traces } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const batch = (signal: SpanBatch['signal'], document: object): SpanBatch => scan(signal, fromJson(signal, document)).batch
const key = (rollout: string, attempt = '') => `${rollout}\u0000${attempt}`

test('a span is stored with its own bytes and the columns that searches need', async () => {
  const spans = batch(
    'traces',
    traces('t1', [
      { id: 'a', name: 'run', for: 7, attributes: { 'gen_ai.response.id': 'resp-1' } },
      { id: 'b', parent: 'a', status: 2 },
    ]),
  )
  await storage.insertSpans([spans], [[key('r1'), '']])
  const rows = await storage.rows(
    `SELECT span_id, parent_span_id, name, service, kind, status, duration, signal, rollout_hint, response_id, start_time
     FROM spans WHERE trace_id = '${traceIdOf('t1')}' ORDER BY start_time`,
  )
  expect(rows).toEqual([
    {
      span_id: spanIdOf('a'),
      parent_span_id: '',
      name: 'run',
      service: 'test-agent',
      kind: 'internal',
      status: 'unset',
      duration: 7_000_000,
      signal: 'span',
      rollout_hint: key('r1'),
      response_id: 'resp-1',
      start_time: '2025-11-24 16:00:00.000000000',
    },
    expect.objectContaining({ span_id: spanIdOf('b'), parent_span_id: spanIdOf('a'), status: 'error', rollout_hint: '', response_id: '' }),
  ])
})

test('what was stored twice is read back once, spans and log records alike', async () => {
  const spans = batch('traces', traces('t2', [{ id: 'a', unfinished: true }, { id: 'b' }]))
  const finished = batch('traces', traces('t2', [{ id: 'a', for: 3 }]))
  await storage.insertSpans([spans, spans], [])
  await storage.insertSpans([finished], [])
  const items = await storage.readItems([traceIdOf('t2'), traceIdOf('none')])
  expect(items.map((item) => item.signal === 'span' && [item.span_id, item.end_time > 0n])).toEqual([
    [spanIdOf('a'), true],
    [spanIdOf('b'), true],
  ])
  expect(items[0]!.resource).toEqual({ 'service.name': 'test-agent' })
  expect(await storage.rows(`SELECT count() AS n FROM spans_unique WHERE trace_id = '${traceIdOf('t2')}'`)).toEqual([{ n: 2 }])
})

test('a revision is invisible until it is committed', async () => {
  const rollout = aRollout({ rollout_id: 'r3', trace_ids: [traceIdOf('t3')] })
  await storage.writeRevision([rollout])
  expect(await storage.rows("SELECT step FROM transitions WHERE rollout_id = 'r3'")).toEqual([])
  await storage.commit([rollout])
  expect(await storage.rows("SELECT step FROM transitions WHERE rollout_id = 'r3'")).toEqual([{ step: 0 }])
})

test('a revision that is written again is the same block', async () => {
  const rollout = aRollout({ rollout_id: 'r4' })
  await storage.writeRevision([rollout])
  await storage.writeRevision([rollout])
  await storage.commit([rollout])
  await storage.commit([rollout])
  expect(await storage.rows("SELECT count() AS n FROM transitions WHERE rollout_id = 'r4'")).toEqual([{ n: 1 }])
})

test('a later revision takes the place of an earlier one, also when nothing is left of it', async () => {
  const two = aRollout({ rollout_id: 'r5', calls: [aCall('a'), aCall('b')] })
  const live = () => storage.rows("SELECT revision, step FROM transitions WHERE rollout_id = 'r5' ORDER BY step")
  await storage.writeRevision([two])
  await storage.commit([two])
  expect(await live()).toEqual([
    { revision: 1, step: 0 },
    { revision: 1, step: 1 },
  ])
  const none = {
    ...two,
    revision: 2,
    transitions: [],
    rejects: [{ span_id: 'a', policy: 'default', reason: 'truncated', detail: 'prompt' }],
  }
  await storage.writeRevision([none])
  await storage.commit([none])
  expect(await live()).toEqual([])
  expect(await storage.rows("SELECT revision, reason, detail FROM rejects WHERE rollout_id = 'r5'")).toEqual([
    { revision: 2, reason: 'truncated', detail: 'prompt' },
  ])
})
