import { describe, expect, test } from 'vitest'

import { damaged, randomRequest } from '../test/otlp/random.ts'
import { reference } from '../test/otlp/reference.ts'
import { seeded } from '../test/random.ts'
import { fromJson, toJson } from './otlp_json.ts'
import {
  attribute,
  endTime,
  itemName,
  Malformed,
  MAX_ITEMS,
  MAX_PARTS,
  parentSpanId,
  readItem,
  ROUTING_KEYS,
  scan,
  spanId,
  startTime,
  traceId,
} from './scan.ts'
import type { Item } from './span.ts'
import type { SpanBatch } from './span_batch.ts'

const SIGNALS = ['traces', 'logs'] as const

describe.each(SIGNALS)('random %s', (signal) => {
  test('are read as protobufjs reads them, however they are written', () => {
    const random = seeded(1)
    let accepted = 0
    for (let i = 0; i < 400; i++) {
      const body = randomRequest(random, signal)
      const expected = reference(signal, body)
      const { batch, rejected } = scan(signal, body)
      expect([itemsOf(batch), rejected.length]).toEqual([expected.accepted, expected.rejected])
      accepted += batch.count
    }
    expect(accepted).toBeGreaterThan(400)
  })

  test('leave a batch whose body holds what was accepted and nothing else', () => {
    const random = seeded(3)
    let partial = 0
    for (let i = 0; i < 400; i++) {
      const { batch, rejected } = scan(signal, randomRequest(random, signal))
      if (batch.count === 0 || rejected.length === 0) continue
      const again = scan(signal, batch.body)
      expect([again.rejected, itemsOf(again.batch)]).toEqual([[], itemsOf(batch)])
      partial++
    }
    if (signal === 'traces') expect(partial).toBeGreaterThan(20)
  })

  test('are accepted exactly when protobufjs accepts them, with some bytes damaged', () => {
    const random = seeded(2)
    const verdicts = { accepted: 0, refused: 0 }
    for (let i = 0; i < 1_000; i++) {
      const body = damaged(random, randomRequest(random, signal))
      const expected = attempt(() => reference(signal, body))
      const got = attempt(() => scan(signal, body))
      if (expected instanceof Error) {
        // protobufjs refuses lengths and tags that are padded to more than five bytes; they are legal.
        if (got instanceof Error) expect(got).toBeInstanceOf(Malformed)
        else expect(expected.message).toMatch(/invalid tag encoding|index out of range/)
        verdicts.refused++
        continue
      }
      if (got instanceof Error) throw new Error(`${got.message}: ${body.toString('hex')}`)
      expect([itemsOf(got.batch), got.rejected.length], body.toString('hex')).toEqual([expected.accepted, expected.rejected])
      verdicts.accepted++
    }
    expect(Math.min(verdicts.accepted, verdicts.refused)).toBeGreaterThan(150)
  })

  test('have columns and slots that say what the whole item says', () => {
    const random = seeded(3)
    for (let i = 0; i < 300; i++) {
      const { batch } = scan(signal, randomRequest(random, signal))
      itemsOf(batch).forEach((item, j) => {
        const [start, end, parent] = item.signal === 'span' ? [item.start_time, item.end_time, item.parent_span_id] : [item.time, 0n, '']
        expect([traceId(batch, j), spanId(batch, j), parentSpanId(batch, j)]).toEqual([item.trace_id, item.span_id, parent])
        expect([startTime(batch, j), endTime(batch, j)]).toEqual([start, end])
        expect(itemName(batch, j)).toBe(item.signal === 'span' ? item.name : item.event_name)
        expect(ROUTING_KEYS.map((key) => attribute(batch, j, key))).toEqual(ROUTING_KEYS.map((key) => item.attributes[key]))
      })
    }
  })

  test('say the same after a journey through JSON', () => {
    const random = seeded(4)
    for (let i = 0; i < 300; i++) {
      const { batch } = scan(signal, randomRequest(random, signal))
      const document: unknown = JSON.parse(JSON.stringify(toJson(batch)))
      expect(itemsOf(scan(signal, fromJson(signal, document)).batch)).toEqual(itemsOf(batch))
    }
  })
})

function itemsOf(batch: SpanBatch): Item[] {
  return Array.from({ length: batch.count }, (_, i) => readItem(batch, i))
}

function attempt<T>(work: () => T): T | Error {
  try {
    return work()
  } catch (error) {
    return error as Error
  }
}

const IDS = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' }

function traces(...spans: object[]): Buffer {
  const resource = { attributes: [{ key: 'service.name', value: { stringValue: 'shop' } }] }
  return fromJson('traces', { resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'lib', version: '2' }, spans }] }] })
}

test('a span whose ids are wrong is rejected by name, and its neighbours stay', () => {
  const { batch, rejected } = scan(
    'traces',
    traces(
      { ...IDS, name: 'first' },
      { ...IDS, name: 'no trace', traceId: '' },
      { ...IDS, name: 'short', spanId: 'abcd' },
      { ...IDS, name: 'last' },
    ),
  )
  expect(itemsOf(batch).map((item) => 'name' in item && item.name)).toEqual(['first', 'last'])
  expect(rejected.map(({ reason }) => reason)).toEqual([
    'span 2 ("no trace"): trace_id must be 16 bytes (32 hex digits in JSON), not all zero',
    'span 3 ("short"): span_id must be 8 bytes (16 hex digits in JSON), not all zero',
  ])
})

test('spans share their resource and scope, which were read once', () => {
  const { batch } = scan('traces', traces(IDS, IDS, IDS))
  expect(batch.resources.map(({ attributes }) => attributes)).toEqual([{ 'service.name': 'shop' }])
  expect(batch.scopes.map(({ name, version }) => [name, version])).toEqual([['lib', '2']])
  expect(readItem(batch, 2)).toMatchObject({ resource: { 'service.name': 'shop' }, scope: { name: 'lib', version: '2' } })
})

test('only attributes that were asked for have slots, and the last of equal keys counts', () => {
  const attributes = [
    { key: 'order_id', value: { stringValue: 'a' } },
    { key: 'session.id', value: { stringValue: 's' } },
    { key: 'order_id', value: { stringValue: 'b' } },
  ]
  const { batch } = scan('traces', traces({ ...IDS, attributes }), ['order_id', 'absent'])
  expect(['order_id', 'absent', 'session.id'].map((key) => attribute(batch, 0, key))).toEqual(['b', undefined, undefined])
})

test('an attribute may be called as JavaScript pleases', () => {
  const attributes = ['__proto__', 'constructor', 'toString'].map((key) => ({ key, value: { stringValue: key } }))
  const { batch } = scan('traces', traces({ ...IDS, attributes }))
  expect(Object.entries(readItem(batch, 0).attributes)).toEqual(attributes.map(({ key }) => [key, key]))
})

test.each([
  [66, 1],
  [67, 0],
])('a value of %i key-value lists in each other leaves %i spans accepted beside their neighbour', (levels, accepted) => {
  const value = Array.from({ length: levels }).reduce<object>((inner) => ({ kvlistValue: { values: [{ key: 'k', value: inner }] } }), {})
  const { batch, rejected } = scan('traces', traces({ ...IDS, attributes: [{ key: 'deep', value }] }, IDS))
  expect([batch.count, rejected.length]).toEqual([1 + accepted, 1 - accepted])
})

const many = <T>(count: number, one: T) => Array<T>(count).fill(one)

test.each([
  ['attributes', many(MAX_PARTS + 1, { key: 'k' })],
  ['events', many(MAX_PARTS + 1, {})],
  ['links', many(MAX_PARTS + 1, {})],
  ['attributes', [{ key: 'list', value: { arrayValue: { values: many(MAX_PARTS, { kvlistValue: {} }) } } }]],
])('a span of too many %s costs itself, not its neighbour', (field, list) => {
  const { batch, rejected } = scan('traces', traces({ ...IDS, name: 'large', [field]: list }, IDS))
  expect(batch.count).toBe(1)
  expect(rejected).toEqual([{ reason: `span 1 ("large"): more than ${MAX_PARTS} attributes, events, links and values within them` }])
})

test('token ids and logprobs may be as many as a request holds', () => {
  const values = [...many(MAX_PARTS, { intValue: 7 }), ...many(MAX_PARTS, { doubleValue: -0.5 })]
  const { batch } = scan('traces', traces({ ...IDS, attributes: [{ key: 'tokens', value: { arrayValue: { values } } }] }))
  expect(readItem(batch, 0).attributes.tokens).toHaveLength(2 * MAX_PARTS)
})

test('a resource of too many attributes is refused, and so is a request that has them all over', () => {
  const attributes = many(MAX_PARTS, { key: 'k' })
  const spans = [IDS]
  const large = { resource: { attributes: [...attributes, { key: 'k' }] }, scopeSpans: [{ spans }] }
  expect(() => scan('traces', fromJson('traces', { resourceSpans: [large] }))).toThrow(`more than ${MAX_PARTS} attributes`)
  const legal = { resource: { attributes: attributes.slice(1) }, scopeSpans: [{ spans }] }
  const body = fromJson('traces', { resourceSpans: [legal] })
  expect(scan('traces', body).batch.count).toBe(1)
  expect(() => scan('traces', Buffer.concat(many(45, body)))).toThrow('in one request')
})

test('a request of too many items is refused', () => {
  const records = Buffer.alloc(2 * (MAX_ITEMS + 1), '1200', 'hex')
  const scopeLogs = Buffer.concat([Buffer.from('12828010', 'hex'), records])
  const body = Buffer.concat([Buffer.from('0a868010', 'hex'), scopeLogs])
  expect(() => scan('logs', body)).toThrow(`more than ${MAX_ITEMS} items in one request`)
})

test.each([
  ['0aff', 'the message is cut short at byte 2'],
  ['0a05', '5 bytes announced at byte 2, where 0 are left'],
  ['0e01', 'wire type 6 out of place before byte 1'],
])('the bytes %s are refused: %s', (hex, message) => {
  expect(() => scan('traces', Buffer.from(hex, 'hex'))).toThrow(new Malformed(message))
})

test('a request whose last byte is a tag without its value is refused, whichever field that begins', () => {
  const ids = Buffer.concat([Buffer.from([10, 16]), Buffer.alloc(16, 1), Buffer.from([18, 8]), Buffer.alloc(8, 2)])
  const within = (message: Buffer, tag = 10) => Buffer.concat([Buffer.from([tag, message.length]), message])
  for (let tag = 1; tag < 128; tag++) {
    const body = within(within(within(Buffer.concat([ids, Buffer.from([tag])]), 18), 18))
    expect(() => scan('traces', body)).toThrow(Malformed)
  }
})
