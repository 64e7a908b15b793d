import { expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { readRaw } from '../data/read.ts'
import { attribute, scan } from '../data/scan.ts'
import { rawItem, type SpanBatch } from '../data/span_batch.ts'
import { seeded } from '../test/random.ts'
import { openRows, putBytes, putString, putUInt32, putUInt64, putUInt8, written, type Rows } from './row_binary.ts'
import { itemOfRow, rowSize, spanRows } from './span_rows.ts'

const RECEIVED_AT = 1_764_500_000_123
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

/** The same row, value by value, from the span as an object. */
function putPlainly(rows: Rows, batch: SpanBatch, i: number, hint: string): void {
  const raw = rawItem(batch, i)
  const item = readRaw(raw)
  if (item.signal !== 'span') throw new Error('no span')
  const response = attribute(batch, i, 'gen_ai.response.id')
  putString(rows, '')
  putUInt64(rows, RECEIVED_AT)
  putUInt8(rows, 0)
  putString(rows, String(item.resource['service.name']))
  putBytes(rows, raw.resource.bytes)
  putBytes(rows, raw.scope.bytes)
  putString(rows, hint)
  putString(rows, item.trace_id)
  putUInt64(rows, item.start_time)
  for (const text of [item.span_id, item.parent_span_id, item.name]) putString(rows, text)
  putUInt8(rows, item.kind <= 5 ? item.kind : 0)
  putUInt8(rows, item.status <= 2 ? item.status : 0)
  putUInt64(rows, item.start_time > 0n && item.end_time > item.start_time ? item.end_time - item.start_time : 0)
  putUInt32(rows, rows.count++)
  putString(rows, typeof response === 'string' ? response : '')
  putBytes(rows, raw.payload)
}

test('a row is what the span says, whatever its neighbours were, and gives the span back', () => {
  const rows = openRows(16)
  const plain = openRows(16)
  const { put } = spanRows(rows, RECEIVED_AT)
  for (let n = 0; n < 15; n++) {
    const batch = batchOf(1 + random(4))
    for (let i = 0; i < batch.count; i++) {
      const hint = oneOf('', '', 'r1\u0000a1', `${'Zürich'.repeat(20)}\u0000`)
      const start = rows.length
      put(batch, i, hint)
      putPlainly(plain, batch, i, hint)
      expect(rows.bytes.toString('latin1', start, rows.length)).toBe(plain.bytes.toString('latin1', start, plain.length))
      expect(itemOfRow(rows.bytes, start)).toEqual(rawItem(batch, i))
      if (typeof attribute(batch, i, 'gen_ai.response.id') !== 'string')
        expect(rows.length - start).toBeLessThanOrEqual(rowSize(batch, i, hint))
    }
  }
  expect(written(rows).equals(written(plain))).toBe(true)
})
