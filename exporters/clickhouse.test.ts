import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { scan } from '../data/scan.ts'
import { Permanent, type Item, type Signal } from '../pipeline/component.ts'
import { conforms, configure, logBatch, problems, rollout, spanBatch, testContext } from '../test/conformance.ts'
import { endOf, spanIdOf, traceIdOf, traces } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import clickhouse from './clickhouse.ts'

conforms(clickhouse)

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

async function exported(options: object, signal: Signal, items: readonly Item[], abort = new AbortController().signal): Promise<void> {
  const exporter = configure(clickhouse, options, testContext({ extensions: { clickhouse_storage: storage } }))
  await exporter.start?.()
  await exporter.export(items, signal, abort)
  await exporter.shutdown?.()
}

test('without a url it writes where clickhouse_storage is, and leaves the commit to the connector', async () => {
  const one = rollout({ rollout_id: 'shared', calls: 2 })
  await exported({}, 'rollouts', [one])
  expect(await storage.rows("SELECT count() AS n FROM transitions WHERE rollout_id = 'shared'")).toEqual([{ n: 0 }])
  await storage.commit([one])
  expect(await storage.rows("SELECT count() AS n FROM transitions WHERE rollout_id = 'shared'")).toEqual([{ n: 2 }])
})

test('with a url of its own it commits itself', async () => {
  await exported({ url: storage.url, database: 'copies' }, 'rollouts', [rollout({ rollout_id: 'own', calls: 2 })])
  expect(await storage.rows("SELECT step FROM copies.transitions WHERE rollout_id = 'own' ORDER BY step")).toEqual([
    { step: 0 },
    { step: 1 },
  ])
})

test('a write of rollouts that takes too long ends, says nothing against ClickHouse, and is done once when it is done again', async () => {
  const one = rollout({ rollout_id: 'slow', calls: 2 })
  await storage.client.command({ query: 'ALTER TABLE transition_rows ADD CONSTRAINT slow CHECK sleep(3) = 0' })
  await expect(exported({}, 'rollouts', [one], AbortSignal.timeout(100))).rejects.toThrow('aborted due to timeout')
  await storage.client.command({ query: 'ALTER TABLE transition_rows DROP CONSTRAINT slow' })
  await exported({}, 'rollouts', [one])
  await storage.commit([one])
  expect(await storage.rows("SELECT count() AS n FROM transitions WHERE rollout_id = 'slow'")).toEqual([{ n: 2 }])
})

test('a rollout that no row can hold is refused for good, so that it does not stand in the way of others', async () => {
  const impossible = rollout({ rollout_id: 'impossible', revision: -1 })
  await expect(exported({}, 'rollouts', [impossible])).rejects.toThrow(Permanent)
})

test('spans arrive in otel_traces, column for column', async () => {
  await exported({}, 'traces', [
    spanBatch([{ id: 'run', name: 'invoke', for: 7, status: 2, attributes: { tries: 2, who: 'ann', exact: 0.5, done: true } }]),
  ])
  expect(await storage.rows('SELECT * FROM otel_traces')).toEqual([
    {
      Timestamp: '2025-11-24 16:00:00.000000000',
      TraceId: traceIdOf('trace'),
      SpanId: spanIdOf('run'),
      ParentSpanId: '',
      TraceState: '',
      SpanName: 'invoke',
      SpanKind: 'Internal',
      ServiceName: 'test-agent',
      ResourceAttributes: { 'service.name': 'test-agent' },
      ScopeName: 'test',
      ScopeVersion: '',
      SpanAttributes: { tries: '2', who: 'ann', exact: '0.5', done: 'true' },
      Duration: 7_000_000,
      StatusCode: 'Error',
      StatusMessage: '',
      'Events.Timestamp': [],
      'Events.Name': [],
      'Events.Attributes': [],
      'Links.TraceId': [],
      'Links.SpanId': [],
      'Links.TraceState': [],
      'Links.Attributes': [],
    },
  ])
  expect(await storage.rows('SELECT TraceId, Start = End AS same FROM otel_traces_trace_id_ts')).toEqual([
    { TraceId: traceIdOf('trace'), same: 1 },
  ])
})

test('events, links and nested values keep what they say', async () => {
  const event = {
    timeUnixNano: '1764000000000000001',
    name: 'exception',
    attributes: [{ key: 'lines', value: { arrayValue: { values: [{ intValue: '1' }, { stringValue: 'b' }] } } }],
  }
  const link = {
    traceId: traceIdOf('other'),
    spanId: spanIdOf('s'),
    traceState: 'a=1',
    attributes: [{ key: 'n', value: { kvlistValue: { values: [{ key: 'k', value: { boolValue: false } }] } } }],
  }
  const request = traces('trace', [{ id: 'x' }]) as { resourceSpans: [{ scopeSpans: [{ spans: [object] }] }] }
  Object.assign(request.resourceSpans[0].scopeSpans[0].spans[0], { events: [event], links: [link] })
  await exported({ traces_table_name: 'nested' }, 'traces', [scan('traces', fromJson('traces', request)).batch])
  const [row] = await storage.rows(
    'SELECT Events.Name, Events.Attributes, Links.TraceId, Links.TraceState, Links.Attributes, Events.Timestamp FROM nested',
  )
  expect(row).toEqual({
    'Events.Timestamp': ['2025-11-24 16:00:00.000000001'],
    'Events.Name': ['exception'],
    'Events.Attributes': [{ lines: '[1,"b"]' }],
    'Links.TraceId': [traceIdOf('other')],
    'Links.TraceState': ['a=1'],
    'Links.Attributes': [{ n: '{"k":false}' }],
  })
})

test('log records arrive in otel_logs', async () => {
  await exported({}, 'logs', [logBatch()])
  expect(
    await storage.rows(
      'SELECT EventName, SeverityNumber, Body, LogAttributes, TimestampTime = toDateTime(Timestamp) AS same FROM otel_logs',
    ),
  ).toEqual([
    { EventName: 'leyden.rollout.end', SeverityNumber: 0, Body: '', LogAttributes: { 'leyden.rollout.status': 'succeeded' }, same: 1 },
  ])
})

test('a request that is sent again is stored once, in the lookup table too', async () => {
  const batch = spanBatch([{ id: 'again' }])
  for (let i = 0; i < 2; i++) await exported({ traces_table_name: 'twice' }, 'traces', [batch])
  expect(await storage.rows('SELECT (SELECT count() FROM twice) AS spans, (SELECT count() FROM twice_trace_id_ts) AS traces')).toEqual([
    { spans: 1, traces: 1 },
  ])
})

test('spans of four months fit into one insert', async () => {
  const spans = Array.from({ length: 120 }, (_, day) => ({ id: `d${day}`, at: day * 86_400_000 }))
  await exported({ traces_table_name: 'long' }, 'traces', [spanBatch(spans)])
  expect(await storage.rows('SELECT uniq(toDate(Timestamp)) AS days FROM long')).toEqual([{ days: 120 }])
})

test('a span that ClickHouse refuses for good is left out, told and counted; those of its request are stored, once', async () => {
  const context = testContext({ extensions: { clickhouse_storage: storage } })
  const exporter = configure(clickhouse, { traces_table_name: 'picky' }, context)
  const send = (names: readonly string[]) =>
    exporter.export([spanBatch(names.map((name) => ({ id: name, name })))], 'traces', new AbortController().signal)
  await send(['first'])
  await storage.client.command({ query: "ALTER TABLE picky ADD CONSTRAINT no_bad CHECK SpanName != 'bad'" })

  for (let i = 0; i < 2; i++) await send(['a', 'bad', 'b', 'c'])
  const names = ['a', 'b', 'c', 'first']
  expect(await storage.rows('SELECT SpanName AS name FROM picky ORDER BY name')).toEqual(names.map((name) => ({ name })))
  expect(context.counts).toEqual({ leyden_exporter_rejected_spans: 2 })
  expect(context.lines.at(-1)).toMatchObject({ fields: { table: 'picky', spans: 1, error: expect.stringContaining('no_bad') } })
  await exporter.shutdown?.()
})

test('a log record that ClickHouse refuses for good is left out as well', async () => {
  const context = testContext({ extensions: { clickhouse_storage: storage } })
  const exporter = configure(clickhouse, { logs_table_name: 'picky_logs' }, context)
  const send = (...statuses: string[]) =>
    exporter.export(
      statuses.map((status) => logBatch(endOf('r', status))),
      'logs',
      new AbortController().signal,
    )
  await send('first')
  await storage.client.command({
    query: "ALTER TABLE picky_logs ADD CONSTRAINT no_bad CHECK LogAttributes['leyden.rollout.status'] != 'bad'",
  })

  await send('bad', 'a')
  expect(await storage.rows('SELECT count() AS n FROM picky_logs')).toEqual([{ n: 2 }])
  expect(context.counts).toEqual({ leyden_exporter_rejected_log_records: 1 })
  await exporter.shutdown?.()
})

test('a table that is gone is no matter of the rows: all of them are tried again', async () => {
  const context = testContext({ extensions: { clickhouse_storage: storage } })
  const exporter = configure(clickhouse, { traces_table_name: 'gone' }, context)
  const send = () => exporter.export([spanBatch([{ id: 'a' }, { id: 'b' }])], 'traces', new AbortController().signal)
  await send()
  await storage.client.command({ query: 'DROP TABLE gone' })
  await expect(send()).rejects.toThrow('gone')
  expect(context.counts).toEqual({})
  await exporter.shutdown?.()
})

test('create_schema: false leaves the making of tables to others', async () => {
  await expect(exported({ create_schema: false, logs_table_name: 'not_there' }, 'logs', [logBatch()])).rejects.toThrow('not_there')
})

test.each([
  [{ url: 'tcp://localhost:9000' }, 'must be embedded, embedded:<folder> or http(s)://[user:password@]host:port'],
  [{ database: 'agents' }, 'needs "url"'],
])('%j is refused', (options, message) => {
  expect(problems(clickhouse, options)).toEqual([expect.stringContaining(message)])
})
