import { expect, test } from 'vitest'

import { decode, fromJson } from '../data/otlp_json.ts'
import { ExportTraceServiceRequest } from '../data/otlp_messages.ts'
import { createSpanWriter, type Attribute, type SpanHead } from './span_bytes.ts'

interface WrittenSpan extends SpanHead {
  readonly attributes: Readonly<Record<string, Attribute | undefined>>
}

const SPANS: WrittenSpan[] = [
  {
    ...{ trace_id: '0af7651916cd43dd8448eb211c80319c', span_id: 'b7ad6b7169203331', parent_span_id: '', name: 'chat', kind: 2 },
    ...{ started_at: 1_700_000_000_123, ended_at: 1_700_000_000_456, attributes: {}, error: undefined },
  },
  {
    ...{ trace_id: '1af7651916cd43dd8448eb211c80319c', span_id: 'c7ad6b7169203331', parent_span_id: 'b7ad6b7169203331', kind: 3 },
    ...{ name: 'chat 名前', started_at: 0, ended_at: 1, error: 'it broke \ud800 off' },
    attributes: {
      ...{ empty: '', text: 'né', long: 'x'.repeat(1_100_000), texts: ['b', '', 'a'], none: [], missing: undefined },
      ...{ zero: 0, int: 300, negative: -7, large: 2 ** 53 - 1, larger: 1e300, half: 0.5, minus: -0.25 },
    },
  },
]

/** As data/otlp_json.ts writes it from JSON. */
function fromItsJson(spans: readonly WrittenSpan[]): Buffer {
  const value = (v: Attribute): object => {
    if (typeof v === 'string') return { stringValue: v }
    if (typeof v === 'object') return { arrayValue: { values: v.map(value) } }
    return Number.isSafeInteger(v) ? { intValue: v } : { doubleValue: v }
  }
  const written = spans.map(({ trace_id, span_id, parent_span_id, name, kind, started_at, ended_at, attributes, error }) => ({
    ...{ traceId: trace_id, spanId: span_id, ...(parent_span_id !== '' && { parentSpanId: parent_span_id }), name, kind },
    ...{ startTimeUnixNano: String(BigInt(started_at) * 1_000_000n), endTimeUnixNano: String(BigInt(ended_at) * 1_000_000n) },
    // What is first in the object is last in the bytes.
    attributes: Object.entries(attributes)
      .flatMap(([key, v]) => (v === undefined ? [] : [{ key, value: value(v) }]))
      .toReversed(),
    ...(error !== undefined && { status: { code: 2, message: error } }),
  }))
  const resource = { attributes: [{ key: 'service.name', value: { stringValue: 'leyden' } }] }
  return fromJson('traces', { resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'leyden.openai' }, spans: written }] }] })
}

test('spans are written byte for byte as by way of JSON, the last one first', () => {
  const writer = createSpanWriter()
  for (const spans of [SPANS.slice(0, 1), SPANS.slice(1), SPANS, SPANS.toReversed()]) {
    for (const span of spans.toReversed())
      writer.add(span, (write) => {
        for (const [key, value] of Object.entries(span.attributes)) write(key, value)
      })
    const bytes = writer.take()
    expect(bytes.equals(fromItsJson(spans)), JSON.stringify(decode(ExportTraceServiceRequest, bytes)).slice(0, 2_000)).toBe(true)
    expect(writer.size()).toBe(0)
  }
})
