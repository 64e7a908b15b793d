import { expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { itemName, scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { traces } from '../test/spans.ts'
import { Permanent, Refused } from './component.ts'
import { gathering } from './gather.ts'

const KB = 1_024
const request = (name: string, bytes = 10): SpanBatch =>
  scan('traces', fromJson('traces', traces('t', [{ id: 'a', name: name.padEnd(bytes, '.') }]))).batch
/** The spans of each call, of however many batches. */
const names = (batches: readonly SpanBatch[]) =>
  batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => itemName(batch, i).replace(/\.+$/, '')))
const sizes = (calls: readonly (readonly SpanBatch[])[]) => calls.map((batches) => names(batches).length)

function recorder(fails: (batches: readonly SpanBatch[]) => Error | undefined = () => undefined) {
  const calls: (readonly SpanBatch[])[] = []
  const gather = gathering(async (batches) => {
    calls.push([...batches])
    const error = fails(batches)
    if (error) throw error
  })
  const pass = (batch: SpanBatch) =>
    new Promise<void>((resolve, reject) => gather(batch, (error) => (error === undefined ? resolve() : reject(error as Error))))
  return { calls, pass }
}

test('requests of one turn of the event loop go on together, those of the next by themselves', async () => {
  const { calls, pass } = recorder()
  await Promise.all([pass(request('a')), pass(request('b')), pass(request('c'))])
  await pass(request('d'))
  expect(sizes(calls)).toEqual([3, 1])
})

test('what is large goes on by itself, and before there is too much of what is small', async () => {
  const { calls, pass } = recorder()
  await Promise.all([600, 2_000, 600, 300].map((size) => pass(request('a', size * KB))))
  expect(sizes(calls)).toEqual([1, 1, 2])
})

test('a request that fails for good fails alone', async () => {
  const bad = request('bad')
  const { calls, pass } = recorder((batches) => (names(batches).includes('bad') ? new Permanent('bad') : undefined))
  const results = await Promise.allSettled([request('a'), bad, request('b')].map((one) => pass(one)))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(sizes(calls)).toEqual([3, 1, 1, 1])
})

test('where there is no room, all are told so, and none is tried again', async () => {
  const { calls, pass } = recorder(() => new Refused('full'))
  const results = await Promise.allSettled([request('a'), request('b')].map(pass))
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(sizes(calls)).toEqual([2])
})
