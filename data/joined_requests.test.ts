import { expect, test } from 'vitest'

import { damaged, randomRequest } from '../test/otlp/random.ts'
import { seeded } from '../test/random.ts'
import { scanJoined } from './joined_requests.ts'
import { readItem, scan } from './scan.ts'
import type { SpanBatch } from './span_batch.ts'

test.each(['traces', 'logs'] as const)('%s are read of requests in a row as of each of them, unless one has a fault', (signal) => {
  const random = seeded(1)
  const outcomes = { whole: 0, faulty: 0 }
  for (let run = 0; run < 100; run++) {
    const requests = Array.from({ length: 1 + random(3) }, () => oneRequest(random, signal))
    const alone = requests.map((request) => itemsOf(() => scan(signal, request)))
    const ends = requests.map((_, i) => requests.slice(0, i + 1).reduce((sum, { length }) => sum + length, 0))
    const joined = scanJoined(signal, Buffer.concat(requests), ends)
    const isFaulty = alone.includes(undefined)
    outcomes[isFaulty ? 'faulty' : 'whole']++
    expect(joined && items(joined)).toEqual(isFaulty ? undefined : alone.flat())
  }
  expect(Math.min(outcomes.whole, outcomes.faulty)).toBeGreaterThan(10)
})

test('a request that is cut short is not made whole by the next', () => {
  const request = Buffer.from([10, 4, 18, 2, 18, 0])
  const [first, second] = [request.subarray(0, 3), request.subarray(3)]
  expect(scanJoined('traces', Buffer.concat([request, request]), [6, 12])).toBeUndefined() // a span without ids
  expect(scanJoined('logs', Buffer.concat([request, request]), [6, 12])!.count).toBe(2)
  expect(scanJoined('logs', Buffer.concat([first, second]), [3, 6])).toBeUndefined()
})

/** Most random ones have a span without ids or such, so that half of them are cut down to what is accepted. */
function oneRequest(random: (n: number) => number, signal: SpanBatch['signal']): Buffer {
  const request = randomRequest(random, signal)
  const kind = random(8)
  if (kind === 0) return damaged(random, request)
  return kind === 1 ? request : scan(signal, request).batch.body
}

/** Undefined where not all of it is accepted. */
function itemsOf(read: () => ReturnType<typeof scan>): readonly unknown[] | undefined {
  try {
    const { batch, rejected } = read()
    return rejected.length > 0 ? undefined : items(batch)
  } catch {
    return undefined
  }
}

const items = (batch: SpanBatch) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i))
