import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'

import { readRaw } from '../data/read.ts'
import { spanBatch } from '../test/conformance.ts'
import { spanIdOf, traceIdOf } from '../test/spans.ts'
import { stopEmbedded, testStorage, type TestStorage } from '../test/storage.ts'
import { spanInserter, type SpanInserter } from './insert_spans.ts'
import { Unavailable } from './storage.ts'

let storage: TestStorage
const counts: Record<string, number> = {}
const problems: (string | null)[] = []
beforeAll(async () => {
  storage = await testStorage({
    count: (name, n) => void (counts[name] = (counts[name] ?? 0) + n),
    report: (problem) => problems.push(problem),
  })
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
  const [raw] = await storage.readItems([traceIdOf('trace')])
  expect((readRaw(raw!).attributes.huge as string).length).toBe(20_000_000)
})

test('an insert of several flushes ends when the last of them has, whichever failed before', async () => {
  let free = () => {}
  const second = new Promise<void>((resolve) => (free = resolve))
  const results = [() => Promise.reject(new Error('away')), () => second]
  const { insert } = spanInserter(() => results.shift()!(), { sort: (_parts, _at, error) => Promise.reject(error as Error) })
  let settled = false
  const spans = Array.from({ length: 10_001 }, (_, i) => ({ id: `f${i}` }))
  const inserted = insert([spanBatch(spans)], []).finally(() => (settled = true))
  inserted.catch(() => {})
  await expect.poll(() => results.length).toBe(0)
  await new Promise(setImmediate)
  expect(settled).toBe(false)
  free()
  await expect(inserted).rejects.toThrow('away')
})

test('what comes while three inserts are under way is one insert when the first of them ends', async () => {
  const ends: (() => void)[] = []
  const rows: number[] = []
  const { insert, close } = spanInserter(
    (parts) => {
      rows.push(parts[0]![1]!) // a block begins with the numbers of its columns and rows
      return new Promise<void>((resolve) => ends.push(resolve))
    },
    { sort: (_parts, _at, error) => Promise.reject(error as Error) },
  )
  const inserts: Promise<unknown>[] = []
  for (const i of [0, 1, 2]) {
    inserts.push(insert([spanBatch([{ id: `first-${i}` }])], []))
    await expect.poll(() => ends.length).toBe(i + 1)
  }
  for (const i of [0, 1, 2, 3]) inserts.push(insert([spanBatch([{ id: `more-${i}` }])], []))
  await sleep(150)
  expect(rows).toHaveLength(3)
  ends[0]!()
  await expect.poll(() => rows).toHaveLength(4)
  for (const end of ends) end()
  await Promise.all(inserts)
  await close()
  expect(rows).toEqual([1, 1, 1, 4])
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

test('rows that ClickHouse refuses for good stand in rejects with its reason, and the others are stored', async () => {
  await storage.client.command({ query: "ALTER TABLE spans ADD CONSTRAINT no_poison CHECK name NOT LIKE 'poison%'" })
  const spans = Array.from({ length: 300 }, (_, i) => ({ id: `q${i}`, name: [17, 18, 299].includes(i) ? `poison ${i}` : `good ${i}` }))
  const hints = spans.map((_, i) => (i === 17 ? 'r1\u0000a1' : ''))
  await Promise.all([
    storage.insertSpans([spanBatch(spans)], [hints]),
    storage.insertSpans([spanBatch([{ id: 'other' }])], []),
    storage.insertSpans([spanBatch([{ id: 'more', name: 'poison' }])], []),
  ])
  expect(await stored()).toMatchObject([{ rows: 298, spans: 298 }])
  const rejects = await storage.rows<{ detail: string }>(
    "SELECT rollout_id, attempt_id, span_id, reason, detail FROM rejects WHERE reason = 'refused_by_clickhouse' ORDER BY span_id",
  )
  expect(rejects).toHaveLength(4)
  expect(rejects).toContainEqual({
    rollout_id: 'r1',
    attempt_id: 'a1',
    span_id: spanIdOf('q17'),
    reason: 'refused_by_clickhouse',
    detail: expect.stringMatching(/Constraint `?no_poison`? .* is violated/),
  })
  expect(rejects).toContainEqual(expect.objectContaining({ rollout_id: traceIdOf('trace'), attempt_id: '', span_id: spanIdOf('q299') }))
  expect(counts).toEqual({ leyden_quarantined_items: 4 })
  expect(problems.at(-1)).toBe(null)

  const all = spanBatch(Array.from({ length: 40 }, (_, i) => ({ id: `x${i}`, name: 'poison' })))
  await expect(storage.insertSpans([all], [])).rejects.toThrow(/no_poison/)
  await storage.client.command({ query: 'ALTER TABLE spans DROP CONSTRAINT no_poison' })
  expect(counts).toEqual({ leyden_quarantined_items: 4 })
})

test('a table that takes nothing at all is no matter of the rows: clients keep them', async () => {
  await storage.client.command({ query: 'RENAME TABLE spans TO spans_elsewhere' })
  await expect(storage.insertSpans([spanBatch([{ id: 'a' }, { id: 'b' }])], [])).rejects.toThrow(Unavailable)
  await storage.client.command({ query: 'RENAME TABLE spans_elsewhere TO spans' })
  expect(counts).toEqual({ leyden_quarantined_items: 4 })
})

test('an insert that is under way when ClickHouse is killed is tried again, past midnight, and stored once', async () => {
  const midnight = new Date().setUTCHours(24, 0, 0, 0)
  const { now } = Date
  let ahead = midnight - now() - 60_000
  vi.spyOn(Date, 'now').mockImplementation(() => now() + ahead)
  const requests = Array.from({ length: 24 }, (_, i) =>
    spanBatch(Array.from({ length: 20 }, (_, n) => ({ id: `k${i}-${n}`, attributes: { big: 'x'.repeat(50_000) } }))),
  )
  const inserts = requests.map((request) => storage.insertSpans([request], []))
  await Promise.any(inserts)
  ahead += 120_000
  await stopEmbedded(storage.folder, 'SIGKILL')
  await Promise.all(inserts)
  vi.restoreAllMocks()
  // All may have been stored before it was killed, and then nobody has waited for it to be back.
  await expect.poll(() => stored().catch(() => null), { timeout: 20_000 }).toMatchObject([{ rows: 480, spans: 480 }])
})

describe('a flush', () => {
  let sent: number[]
  let insertMs: number
  let insert: SpanInserter['insert']
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    sent = []
    insertMs = 1
    const insertRows = () => {
      sent.push(performance.now())
      return new Promise<void>((resolve) => setTimeout(resolve, insertMs))
    }
    insert = spanInserter(insertRows, { sort: (_parts, _at, error) => Promise.reject(error as Error) }).insert
  })
  afterEach(() => vi.useRealTimers())

  const request = () => insert([spanBatch([{ id: 'w' }])], [])
  /** From this request to the flush that has it. */
  async function waitOf(): Promise<number> {
    const began = performance.now()
    const inserted = request()
    await vi.runAllTimersAsync()
    await inserted
    return Math.round(sent.at(-1)! - began)
  }
  /** How long inserts are to take, and that they have done so lately. */
  async function take(ms: number): Promise<void> {
    insertMs = ms
    for (let i = 0; i < 60; i++) await waitOf()
    await vi.advanceTimersByTimeAsync(100)
  }

  test('is sent at once where nothing else is going on', async () => {
    expect(await waitOf()).toBe(3)
    await vi.advanceTimersByTimeAsync(100)
    expect(await waitOf()).toBe(3)
  })

  test('is sent as long after the one before it as inserts take nowadays: 20 ms at least, 100 at most', async () => {
    for (const [ms, wait] of [
      [1, 20],
      [1_000, 100],
      [50, 50],
    ] as const) {
      await take(ms)
      const first = request()
      await vi.advanceTimersByTimeAsync(3)
      expect(await waitOf()).toBe(wait)
      await first
    }
  })

  test('waits for requests that come close behind each other, but no longer than inserts take nowadays', async () => {
    await take(50)
    const [before, began] = [sent.length, performance.now()]
    const requests: Promise<unknown>[] = []
    const isSent = () => sent.length > before
    for (; requests.length < 10; await vi.advanceTimersByTimeAsync(2)) requests.push(request())
    expect(isSent()).toBe(false)
    for (; !isSent(); await vi.advanceTimersByTimeAsync(2)) requests.push(request())
    expect(sent.at(-1)! - began).toBeGreaterThan(45)
    expect(sent.at(-1)! - began).toBeLessThanOrEqual(50)
    await vi.runAllTimersAsync()
    await Promise.all(requests)
  })
})
