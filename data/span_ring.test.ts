import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { traces } from '../test/spans.ts'
import { fromJson } from './otlp_json.ts'
import { scan } from './scan.ts'
import { payload } from './span_batch.ts'
import { spanRing, type Chain } from './span_ring.ts'

const CAPACITY = 8_192

test.each([1, 2, 3, 4])('a chain gives what was put into it, or nothing at all; one that the ring has room for lives (seed %i)', (seed) => {
  const random = seeded(seed)
  const ring = spanRing(CAPACITY)
  const chains: { chain: Chain; plain: string[]; intact: boolean }[] = []
  let lived = 0
  for (let step = 0; step < 2_000; step++) {
    const spans = Array.from({ length: 1 + random(3) }, (_, i) => ({ id: `${step}-${i}`, name: 'x'.repeat(random(300)) }))
    const { batch } = scan('traces', fromJson('traces', traces('t', spans)))
    for (const i of spans.keys()) {
      if (chains.length < 6 || random(20) === 0) chains.push({ chain: ring.begin(), plain: [], intact: true })
      const entry = chains[chains.length - 1 - random(Math.min(6, chains.length))]!
      entry.plain.push(payload(batch, i).toString('hex'))
      entry.intact = ring.add(entry.chain, batch, [i]) && entry.intact
    }
    for (const { chain, plain, intact } of chains.slice(-6)) {
      const held = ring.read(chain)?.map(({ payload }) => payload.toString('hex'))
      if (held && intact) expect(held).toEqual(plain)
      if (held && plain.length > 0) lived++
    }
  }
  expect(lived).toBeGreaterThan(500)
})

test('a request that is larger than the ring is not held', () => {
  const ring = spanRing(CAPACITY)
  const chain = ring.begin()
  const batchOf = (name: string) => scan('traces', fromJson('traces', traces('t', [{ id: 'a', name }]))).batch
  expect(ring.add(chain, batchOf('x'), [0])).toBe(true)
  expect(ring.add(chain, batchOf('x'.repeat(CAPACITY)), [0])).toBe(false)
})

test('a request of which items belong to several chains is held once', () => {
  const ring = spanRing(CAPACITY)
  const spans = ['a', 'b', 'c', 'd'].map((id) => ({ id, name: 'x'.repeat(1_500) }))
  const { batch } = scan('traces', fromJson('traces', traces('t', spans)))
  const chains = [ring.begin(), ring.begin()]
  expect(chains.map((chain, n) => ring.add(chain, batch, [n, n + 2]))).toEqual([true, true])
  const held = chains.map((chain) => ring.read(chain)?.map(({ payload }) => payload.toString('hex')))
  expect(held).toEqual([0, 1].map((n) => [n, n + 2].map((i) => payload(batch, i).toString('hex'))))
})
