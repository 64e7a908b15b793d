import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

import { spanBatch } from '../test/conformance.ts'
import { traceIdOf } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())
beforeEach(() => storage.client.command({ query: 'TRUNCATE TABLE spans' }))

const stored = () => storage.rows('SELECT count() AS rows, uniqExact(span_id) AS spans, uniqExact(received_at) AS flushes FROM spans')

test('requests that come together are stored together', async () => {
  await Promise.all(Array.from({ length: 200 }, (_, i) => storage.insertSpans([spanBatch([{ id: `s${i}` }])], [])))
  const [found] = await stored()
  expect(found).toMatchObject({ rows: 200, spans: 200 })
  expect(found!.flushes).toBeLessThan(5)
})

test('a request larger than a flush is stored whole', async () => {
  const big = 'x'.repeat(1_500_000)
  const spans = Array.from({ length: 20 }, (_, i) => ({ id: `b${i}`, attributes: { big } }))
  await storage.insertSpans([spanBatch(spans.slice(0, 3)), spanBatch(spans.slice(3))], [])
  const [found] = await stored()
  expect(found).toMatchObject({ rows: 20, spans: 20 })
  expect(found!.flushes).toBeGreaterThan(2)
  expect(await storage.rows('SELECT min(length(payload)) > 1500000 AS whole FROM spans')).toEqual([{ whole: 1 }])
})

test('requests that wait for room are stored once each', async () => {
  const big = 'x'.repeat(700_000)
  const requests = Array.from({ length: 60 }, (_, i) => spanBatch([1, 2].map((n) => ({ id: `w${i}-${n}`, attributes: { big } }))))
  await Promise.all(requests.map((request) => storage.insertSpans([request], [])))
  expect(await stored()).toMatchObject([{ rows: 120, spans: 120 }])
})

test('a span larger than a flush is stored', async () => {
  await storage.insertSpans([spanBatch([{ id: 'huge', attributes: { huge: 'y'.repeat(20_000_000) } }])], [])
  const [item] = await storage.readItems([traceIdOf('trace')])
  expect((item!.attributes.huge as string).length).toBe(20_000_000)
})

test('an empty request is stored at once', async () => {
  await storage.insertSpans([spanBatch([])], [[]])
  await storage.insertSpans([], [])
  expect(await stored()).toEqual([{ rows: 0, spans: 0, flushes: 0 }])
})

test('a long rollout id, an odd name and times beyond reason keep their row whole', async () => {
  const hint = `${'r'.repeat(5_000)}\u0000a`
  const spans = spanBatch([
    { id: 'odd', name: 'naïve\t"名前"\n', at: 0, for: -5 },
    { id: 'open', unfinished: true },
  ])
  await storage.insertSpans([spans], [[hint, '']])
  expect(await storage.rows('SELECT name, duration, rollout_hint FROM spans ORDER BY start_time')).toEqual([
    { name: 'naïve\t"名前"\n', duration: 0, rollout_hint: hint },
    { name: 'open', duration: 0, rollout_hint: '' },
  ])
})
