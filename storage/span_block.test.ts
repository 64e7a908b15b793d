import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { readRaw } from '../data/read.ts'
import { attribute, scan } from '../data/scan.ts'
import { rawItem, type SpanBatch } from '../data/span_batch.ts'
import { seeded } from '../test/random.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

const random = seeded(7)
const oneOf = <T>(...values: T[]): T => values[random(values.length)]!
const hex = (digits: number) => Array.from({ length: digits }, () => '123456789abcdef'[random(15)]).join('')

/** Times at which words borrow from each other, and none at all. */
const time = () =>
  oneOf('0', '1', '4294967295', '4294967296', '1764500000000000000', '1764500004294967295', `17645${hex(3).replace(/\D/g, '7')}00000000000`)

function span() {
  const value = oneOf(
    { stringValue: 'chatcmpl-' + hex(9) },
    { stringValue: 'Zürich'.repeat(random(90)) },
    { stringValue: '' },
    { intValue: '5' },
  )
  return {
    traceId: hex(32),
    spanId: hex(16),
    parentSpanId: oneOf('', hex(16)),
    name: oneOf('', 'call', 'né', 'x'.repeat(random(300))),
    kind: random(8),
    status: { code: random(4) },
    ...oneOf({}, { startTimeUnixNano: time() }, { startTimeUnixNano: time() }),
    ...oneOf({}, { endTimeUnixNano: time() }, { endTimeUnixNano: time() }),
    attributes: [...oneOf([], [{ key: 'gen_ai.response.id', value }]), { key: 'pad', value: { stringValue: 'p'.repeat(random(400)) } }],
  }
}

function batchOf(count: number): SpanBatch {
  const scopeSpans = () => ({ scope: { name: 's' + hex(2) }, spans: Array.from({ length: count }, span) })
  const resource = { attributes: [{ key: 'service.name', value: { stringValue: oneOf('agent', 'Zürich') } }] }
  return scan('traces', fromJson('traces', { resourceSpans: [1, 2].map(() => ({ resource, scopeSpans: [scopeSpans(), scopeSpans()] })) }))
    .batch
}

/** The row that it should be, from the span as an object. */
function plainRow(batch: SpanBatch, i: number, hint: string): object {
  const raw = rawItem(batch, i)
  const item = readRaw(raw)
  if (item.signal !== 'span') throw new Error('no span')
  const response = attribute(batch, i, 'gen_ai.response.id')
  const { trace_id, span_id, parent_span_id, name, start_time, end_time } = item
  return {
    ...{ tenant: '', signal: 0, service: item.resource['service.name'], rollout_hint: hint, trace_id, span_id, parent_span_id, name },
    start_time: String(start_time),
    kind: item.kind <= 5 ? item.kind : 0,
    status: item.status <= 2 ? item.status : 0,
    duration: String(start_time > 0n && end_time > start_time ? end_time - start_time : 0),
    response_id: typeof response === 'string' ? response : '',
    ...{ resource: hexOf(raw.resource.bytes), scope: hexOf(raw.scope.bytes), payload: hexOf(raw.payload) },
  }
}

const hexOf = (bytes: Buffer) => bytes.toString('hex').toUpperCase()

const STORED = `
SELECT tenant, toInt8(signal) AS signal, service, rollout_hint, trace_id, span_id, parent_span_id, name, toString(toUnixTimestamp64Nano(start_time)) AS start_time,
  toInt8(kind) AS kind, toInt8(status) AS status, toString(duration) AS duration, response_id, hex(resource) AS resource, hex(scope) AS scope, hex(payload) AS payload
FROM spans ORDER BY received_at, position`

let storage: TestStorage
beforeAll(async () => void (storage = await testStorage()))
afterAll(() => storage.close())

test('a row is what the span says, whatever its neighbours are', async () => {
  const batches = Array.from({ length: 40 }, () => batchOf(1 + random(4)))
  const hints = batches.map(({ count }) => Array.from({ length: count }, () => oneOf('', '', 'r1\u0000a1', `${'Zürich'.repeat(20)}\u0000`)))
  const plain = batches.flatMap((batch, b) => hints[b]!.map((hint, i) => plainRow(batch, i, hint)))
  // Some in blocks of their own, some together with others.
  for (let at = 0, next = 0; at < batches.length; at = next) {
    next = at + 1 + random(15)
    await storage.insertSpans(batches.slice(at, next), hints.slice(at, next))
  }
  expect(await storage.rows(STORED)).toEqual(plain)
})

test('a log record outside of any trace is in the place of its rollout', async () => {
  const { batch } = scan(
    'logs',
    fromJson('logs', { resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { stringValue: 'x' } }, { traceId: 'ab'.repeat(16) }] }] }] }),
  )
  await storage.insertSpans([batch], [['r1\u0000a1', '']])
  expect(await storage.rows("SELECT trace_id, span_id FROM spans WHERE signal = 'log' ORDER BY position")).toEqual([
    { trace_id: 'r1/a1', span_id: '' },
    { trace_id: 'ab'.repeat(16), span_id: '' },
  ])
})

test('a large resource counts for each of its spans, since ClickHouse has it once for each: they are stored in several inserts', async () => {
  const resource = {
    attributes: [
      { key: 'service.name', value: { stringValue: 'large' } },
      { key: 'x', value: { stringValue: 'x'.repeat(1 << 20) } },
    ],
  }
  const spans = Array.from({ length: 30 }, span)
  const { batch } = scan('traces', fromJson('traces', { resourceSpans: [{ resource, scopeSpans: [{ spans }] }] }))
  await storage.insertSpans([batch], [])
  const [found] = await storage.rows<{ spans: string; inserts: string }>(
    "SELECT count() AS spans, uniqExact(received_at) AS inserts, min(length(resource)) > 1e6 AS whole FROM spans WHERE service = 'large'",
  )
  expect(found).toMatchObject({ spans: 30, whole: 1 })
  expect(Number(found!.inserts)).toBeGreaterThan(2)
})
