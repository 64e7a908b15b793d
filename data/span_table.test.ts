import { expect, test } from 'vitest'

import { seeded, span } from '../test/random.ts'
import { traces } from '../test/spans.ts'
import { fromJson } from './otlp_json.ts'
import { readItem, scan } from './scan.ts'
import type { Span } from './span.ts'
import { payload } from './span_batch.ts'
import { spanTable } from './span_table.ts'

const random = seeded(11)
const hex = (digits: number, values: number): string => random(values).toString(16).padStart(digits, '0')

/** Few traces and few ids, so that many meet; some differ in one word of two. */
function someSpan(): Span {
  const id = random(2) === 0 ? hex(8, 20) + hex(8, 20) : hex(16, 300)
  const time = () => [0n, BigInt(random(50)), BigInt(random(50)) << 32n, 2n ** 64n - 1n - BigInt(random(9))][random(4)]!
  return { ...span(id, '', 0, 0), trace_id: hex(32, 3), start_time: time(), end_time: time() }
}

test('each id of a trace is in it once, under the number of the first', () => {
  const table = spanTable()
  const known = new Map<string, number>()
  for (let i = 0; i < 3_000; i++) {
    const one = someSpan()
    const key = `${one.trace_id} ${one.span_id}`
    expect(table.findText(one.trace_id, one.span_id)).toBe(known.get(key) ?? -1)
    expect(table.add(one)).toBe(known.has(key) ? -1 : known.size)
    if (!known.has(key)) known.set(key, known.size)
  }
  expect(table.count).toBe(known.size)
  for (const [key, number] of known) expect(key.slice(33)).toBe(table.idOf(number))
  expect(table.findText('no such trace', '0000000000000001')).toBe(-1)
  expect(table.findText([...known.keys()][0]!.slice(0, 32), '')).toBe(-1)
})

test.each([500, 10_000])('it has %i by start time to the nanosecond, without one by their end, of one moment as they came', (length) => {
  const table = spanTable()
  const spans = Array.from({ length }, (_, i): Span => ({ ...someSpan(), span_id: (i + 1).toString(16).padStart(16, '0') }))
  for (const one of spans) table.add(one)
  const time = (i: number) => spans[i]!.start_time || spans[i]!.end_time
  const inOrder = spans.map((_, i) => i).sort((a, b) => (time(a) < time(b) ? -1 : time(a) > time(b) ? 1 : a - b))
  expect([...table.byTime()]).toEqual(inOrder)
})

test('the bytes of a span are what the span is', () => {
  const run = traces('t', [
    { id: 'root', name: 'agent' },
    { id: 'child', parent: 'root', at: 3, unfinished: true },
  ])
  const { batch } = scan('traces', fromJson('traces', run))
  const [ofBytes, ofSpans] = [spanTable(), spanTable()]
  for (let i = 0; i < batch.count; i++) {
    ofBytes.add(payload(batch, i))
    ofSpans.add(readItem(batch, i) as Span)
  }
  expect([...ofBytes.words]).toEqual([...ofSpans.words])
  expect(ofBytes.traces).toEqual(ofSpans.traces)
})
