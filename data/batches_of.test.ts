import { expect, test } from 'vitest'

import { randomRequest } from '../test/otlp/random.ts'
import { seeded } from '../test/random.ts'
import { batchesOf } from './batches_of.ts'
import { hintsOf } from './routing.ts'
import { readItem, scan } from './scan.ts'
import { rawItem, type SpanBatch } from './span_batch.ts'

const said = (batch: SpanBatch) => {
  const hints = hintsOf(batch, 'session')
  return Array.from({ length: batch.count }, (_, i) => ({ item: readItem(batch, i), hint: hints[i] ?? '' }))
}

test('what was scanned once says the same when it is made a batch again', () => {
  const random = seeded(7)
  let items = 0
  for (let n = 0; n < 200; n++) {
    const batches = (['traces', 'logs', 'traces'] as const).map((signal) => scan(signal, randomRequest(random, signal)).batch)
    const raws = batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => rawItem(batch, i)))
    expect([...batchesOf(raws)].flatMap(said)).toEqual(batches.flatMap(said))
    items += raws.length
  }
  expect(items).toBeGreaterThan(500)
})

test('many items are several batches', () => {
  const batch = scan('traces', randomRequest(seeded(1), 'traces')).batch
  const one = rawItem(batch, 0)
  expect([...batchesOf(Array(10_000).fill(one))].map(({ count }) => count).reduce((a, b) => a + b)).toBe(10_000)
  expect([...batchesOf(Array(10_000).fill(one))].length).toBeGreaterThan(1)
})
