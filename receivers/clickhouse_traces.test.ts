import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { readItem, scan } from '../data/scan.ts'
import type { Span } from '../data/span.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import clickhouse from '../exporters/clickhouse.ts'
import { Permanent, Refused } from '../pipeline/component.ts'
import { configure, conforms, problems, testContext } from '../test/conformance.ts'
import { traces } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import clickhouse_traces from './clickhouse_traces.ts'

conforms(clickhouse_traces, { url: 'embedded' })

let storage: TestStorage
let folder: string
beforeAll(async () => {
  storage = await testStorage()
  folder = await mkdtemp(join(tmpdir(), 'leyden-replay-'))
  const exporter = configure(clickhouse, {}, context())
  await exporter.start?.()
  for (const batch of written) await exporter.export([batch], 'traces', new AbortController().signal)
})
afterAll(async () => {
  await storage.close()
  await rm(folder, { recursive: true })
})

const context = () => testContext({ kind: 'receiver', extensions: { clickhouse_storage: storage } })

const link = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203332', traceState: 'a=1', attributes: [] }
const event = {
  timeUnixNano: '1764000000000000007',
  name: 'exception',
  attributes: [{ key: 'exception.type', value: { stringValue: 'E' } }],
}
const rich = traces('rich', [{ id: 'root', status: 2, attributes: { 'gen_ai.request.model': 'm', n: 3, ok: true, x: 0.5 } }]) as any
Object.assign(rich.resourceSpans[0].scopeSpans[0].spans[0], { events: [event, event], links: [link], traceState: 'b=2', kind: 3 })
rich.resourceSpans[0].scopeSpans[0].spans[0].status.message = 'no'
rich.resourceSpans[0].scopeSpans[0].scope.version = '1.2'
const many = traces(
  'many',
  Array.from({ length: 300 }, (_, i) => ({ id: `s${i}`, at: i * 1_000, attributes: { text: `ä${i}` } })),
)
const written = [rich, many].map((document) => scan('traces', fromJson('traces', document)).batch)
const items = (batches: readonly SpanBatch[]) =>
  batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i) as Span))

/** What was written, with values as the text that the Collector makes of them. */
const expected = items(written).map((span) => ({
  ...span,
  attributes: Object.fromEntries(Object.entries(span.attributes).map(([key, value]) => [key, String(value)])),
}))
const byId = (spans: readonly Span[]) => new Map(spans.map((span) => [span.span_id, { ...span, attributes: { ...span.attributes } }]))

let runs = 0
async function replay(options: object = {}, accept: (batches: readonly SpanBatch[]) => void = () => {}, progress = `${runs++}`) {
  const told = context()
  const receiver = configure(clickhouse_traces, { progress_file: join(folder, progress), ...options }, told)
  const spans: Span[] = []
  await receiver.start({
    async traces(batches) {
      accept(batches)
      spans.push(...items(batches))
    },
  })
  await expect.poll(() => told.lines.map(({ text }) => text)).toContain('info Everything was replayed.')
  await receiver.shutdown!()
  return { spans, told }
}

test('every span comes back whole, with values as text', async () => {
  const { spans, told } = await replay()
  expect(byId(spans)).toEqual(byId(expected))
  expect(told.counts).toEqual({ receiver_accepted_spans: 301, receiver_refused_spans: 0 })
})

test('a table of the older generation', async () => {
  await storage.client.command({
    query: `CREATE TABLE old_traces (
      Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,
      SpanName LowCardinality(String), SpanKind LowCardinality(String), ServiceName LowCardinality(String),
      ResourceAttributes Map(LowCardinality(String), String), SpanAttributes Map(LowCardinality(String), String),
      Duration Int64, StatusCode LowCardinality(String), StatusMessage String,
      Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)),
      Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String))
    ) ENGINE MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toUnixTimestamp(Timestamp), TraceId)`,
  })
  await storage.client.command({
    query: `INSERT INTO old_traces SELECT * EXCEPT (ScopeName, ScopeVersion)
      REPLACE (concat('SPAN_KIND_', upper(SpanKind)) AS SpanKind, concat('STATUS_CODE_', upper(StatusCode)) AS StatusCode) FROM otel_traces`,
  })
  const { spans } = await replay({ table: 'old_traces' })
  expect(byId(spans)).toEqual(byId(expected.map((span) => ({ ...span, scope: { ...span.scope, name: '', version: '' } }))))
})

test('a table with JSON columns', async () => {
  await storage.client.command({
    query: `CREATE TABLE json_traces (
      Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,
      SpanName LowCardinality(String), SpanKind LowCardinality(String), ServiceName LowCardinality(String),
      ResourceAttributes JSON, ResourceAttributesKeys Array(LowCardinality(String)), ScopeName String, ScopeVersion String,
      SpanAttributes JSON, SpanAttributesKeys Array(LowCardinality(String)),
      Duration UInt64, StatusCode LowCardinality(String), StatusMessage String,
      Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes JSON),
      Links Nested (TraceId String, SpanId String, TraceState String, Attributes JSON)
    ) ENGINE MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))`,
  })
  const json = (map: string) => `CAST(toJSONString(${map}) AS JSON)`
  await storage.client.command({
    query: `INSERT INTO json_traces SELECT Timestamp, TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName,
      ${json('ResourceAttributes')}, mapKeys(ResourceAttributes), ScopeName, ScopeVersion, ${json('SpanAttributes')}, mapKeys(SpanAttributes),
      Duration, StatusCode, StatusMessage,
      Events.Timestamp, Events.Name, arrayMap(x -> ${json('x')}, Events.Attributes),
      Links.TraceId, Links.SpanId, Links.TraceState, arrayMap(x -> ${json('x')}, Links.Attributes) FROM otel_traces`,
  })
  const { spans } = await replay({ table: 'json_traces' })
  expect(byId(spans)).toEqual(byId(expected))
})

test('a table whose nested columns are not flattened', async () => {
  await storage.client.command({
    query: `CREATE TABLE nested_traces (
      Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, SpanName String, SpanAttributes Map(String, String),
      Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String))
    ) ENGINE MergeTree ORDER BY Timestamp`,
    clickhouse_settings: { flatten_nested: 0 },
  })
  await storage.client.command({
    query: `INSERT INTO nested_traces SELECT Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanAttributes,
      arrayMap((time, name, attributes) -> (time, name, attributes), Events.Timestamp, Events.Name, Events.Attributes) FROM otel_traces`,
  })
  const { spans } = await replay({ table: 'nested_traces' })
  expect(
    spans
      .map(({ events }) => events.length)
      .toSorted()
      .at(-1),
  ).toBe(2)
  expect(spans.find(({ name }) => name === 'root')).toMatchObject({
    events: expected[0]!.events,
    attributes: expected[0]!.attributes,
    kind: 0,
  })
})

test('a time range, and only that', async () => {
  const start = Date.parse('2025-11-24T16:00:00Z') // where test/spans.ts begins
  const at = (seconds: number) => new Date(start + seconds * 1_000).toISOString()
  const { spans } = await replay({ since: at(100), until: at(200) })
  expect(spans.map(({ name }) => name)).toEqual(Array.from({ length: 100 }, (_, i) => `s${i + 100}`))
})

test('a minute, and a second, with more spans than are asked for together: each once, an hour after the other', async () => {
  await storage.client.command({
    query: `CREATE TABLE crowded_traces (Timestamp DateTime64(9), TraceId String, SpanId String, SpanAttributes Map(String, String))
      ENGINE MergeTree ORDER BY TraceId`,
  })
  // 21,000 in one second, 1,000 in another, a few an hour later.
  await storage.client.command({
    query: `INSERT INTO crowded_traces SELECT
        fromUnixTimestamp64Nano(1764000000000000000 + multiIf(number < 21000, number * 40000, number < 22000, 30000000000 + number, 3600000000000 + number)::Int64),
        lower(hex(MD5(toString(number)))), leftPad(lower(hex(number + 1)), 16, '0'), map() FROM numbers(22010)`,
  })
  const { spans } = await replay({ table: 'crowded_traces' })
  const ids = spans.map(({ span_id }) => Number(`0x${span_id}`))
  const inOrder = [ids.slice(0, 22_000), ids.slice(22_000)].flatMap((hour) => hour.sort((a, b) => a - b))
  expect(inOrder).toEqual(Array.from({ length: 22_010 }, (_, i) => i + 1))
})

test('a restart goes on where it was; another range begins anew', async () => {
  await replay({}, () => {}, 'again')
  expect((await replay({}, () => {}, 'again')).spans).toEqual([])
  expect((await replay({ since: '2025-11-24' }, () => {}, 'again')).spans).toHaveLength(301)
})

test('what the pipeline refuses for now is sent again, what it refuses for good is counted', async () => {
  let times = 0
  const { spans } = await replay({}, () => {
    if (times++ === 0) throw new Refused('busy', 1)
  })
  expect(spans).toHaveLength(301)
  const { told } = await replay({}, () => {
    throw new Permanent('never')
  })
  expect(told.counts).toEqual({ receiver_accepted_spans: 0, receiver_refused_spans: 301 })
})

test('a table that is none of the Collector’s is named, and a date that is none', async () => {
  const told = context()
  const receiver = configure(clickhouse_traces, { table: 'rollouts', progress_file: join(folder, 'none') }, told)
  await receiver.start({ traces: async () => {} })
  await expect
    .poll(told.problem)
    .toBe('cannot read rollouts: "rollouts" is no otel_traces table: it has no column Timestamp, TraceId, SpanId, SpanAttributes')
  await receiver.shutdown!()
  expect(problems(clickhouse_traces, { since: 'yesterday' })).toEqual([
    'since: must be a date, e.g. 2026-11-01T08:00:00Z (got "yesterday")',
  ])
})
