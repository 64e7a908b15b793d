import { expect, test } from 'vitest'

import { randomRequest } from '../test/otlp/random.ts'
import { seeded } from '../test/random.ts'
import { joinBatches, joinedSize } from './joined_batch.ts'
import { scan } from './scan.ts'
import type { SpanBatch } from './span_batch.ts'

test.each(['traces', 'logs'] as const)('%s joined are what would have been read of one request that says all of it', (signal) => {
  const random = seeded(1)
  for (let run = 0; run < 30; run++) {
    const all = Array.from({ length: 2 + random(5) }, () => scan(signal, randomRequest(random, signal)).batch)
    // One without items never gets that far.
    const batches = all.filter(({ count }) => count > 0)
    if (batches.length === 0) continue
    const memory = Buffer.alloc(joinedSize(batches) + random(10))
    const joined = joinBatches(batches, memory)
    expect(written(joined)).toBe(written(scan(signal, Buffer.concat(batches.map(({ body }) => body))).batch))
  }
})

function written({ body, columns, slots, resources, scopes, signal, count, keys }: SpanBatch): string {
  const envelopes = [...resources, ...scopes].map(({ bytes, schema_url }) => [bytes.toString('hex'), schema_url])
  return JSON.stringify([body.toString('hex'), [...columns], [...slots], envelopes, resources.length, signal, count, keys])
}
