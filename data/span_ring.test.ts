import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { traces } from '../test/spans.ts'
import { fromJson } from './otlp_json.ts'
import { scan } from './scan.ts'
import { copyPayload, payloadSize, type SpanBatch } from './span_batch.ts'
import { spanRing, type Chain } from './span_ring.ts'

const CAPACITY = 8_192

const payloadOf = (batch: SpanBatch, i: number): string => {
  const bytes = Buffer.alloc(payloadSize(batch, i))
  copyPayload(batch, i, bytes, 0)
  return bytes.toString('hex')
}

test.each([1, 2, 3, 4])('a chain gives what was put into it, or nothing at all; one that the ring has room for lives (seed %i)', (seed) => {
  const random = seeded(seed)
  const ring = spanRing(CAPACITY)
  const chains: { chain: Chain; plain: string[]; intact: boolean }[] = []
  let lived = 0
  for (let step = 0; step < 2_000; step++) {
    if (chains.length < 6 || random(10) === 0) chains.push({ chain: ring.begin(), plain: [], intact: true })
    const entry = chains[chains.length - 1 - random(Math.min(6, chains.length))]!
    const spans = Array.from({ length: 1 + random(3) }, (_, i) => ({ id: `${step}-${i}`, name: 'x'.repeat(random(300)) }))
    const { batch } = scan('traces', fromJson('traces', traces('t', spans)))
    const indices = spans.map((_, i) => i)
    entry.plain.push(...indices.map((i) => payloadOf(batch, i)))
    entry.intact = ring.add(entry.chain, batch, indices) && entry.intact
    for (const { chain, plain, intact } of chains.slice(-6)) {
      const held = ring.read(chain)?.map(({ payload }) => payload.toString('hex'))
      if (held && intact) expect(held).toEqual(plain)
      if (held && plain.length > 0) lived++
    }
  }
  expect(lived).toBeGreaterThan(500)
})

test('what is larger than the ring is not held, and neither is what it was added to', () => {
  const ring = spanRing(CAPACITY)
  const chain = ring.begin()
  const { batch } = scan('traces', fromJson('traces', traces('t', [{ id: 'a' }, { id: 'b', name: 'x'.repeat(CAPACITY) }])))
  expect(ring.add(chain, batch, [0])).toBe(true)
  expect(ring.add(chain, batch, [1])).toBe(false)
})
