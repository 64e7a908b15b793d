import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { itemsOf, rowsIn } from '../test/rows.ts'
import { traces } from '../test/spans.ts'
import { fromJson } from './otlp_json.ts'
import { scan } from './scan.ts'
import { payload } from './span_batch.ts'
import { spanMemory, type Chain } from './span_memory.ts'

const batchOf = (...spans: { id: string; name: string }[]) => scan('traces', fromJson('traces', traces('t', spans))).batch
const hex = (bytes: Buffer) => bytes.toString('hex')

test.each([1, 2, 3, 4])('a chain gives what was put into it, or nothing at all; one that there is room for lives (seed %i)', (seed) => {
  const random = seeded(seed)
  const memory = spanMemory({ limit: 12_000, segmentBytes: 4_000 })
  const chains: { chain: Chain; plain: string[]; intact: boolean }[] = []
  let lived = 0
  for (let step = 0; step < 1_000; step++) {
    const spans = Array.from({ length: 1 + random(5) }, (_, i) => ({ id: `${step}-${i}`, name: 'x'.repeat(random(300)) }))
    const batch = batchOf(...spans)
    const runs = rowsIn(memory, batch)
    // Each item goes to one of the latest chains; those of one batch that go to the same one are added together.
    const goals = new Map<number, number[]>()
    for (const i of spans.keys()) {
      if (chains.length < 6 || random(20) === 0) chains.push({ chain: memory.begin(), plain: [], intact: true })
      const goal = chains.length - 1 - random(Math.min(6, chains.length))
      goals.set(goal, [...(goals.get(goal) ?? []), i])
    }
    for (const [goal, indices] of goals) {
      const entry = chains[goal]!
      entry.plain.push(...indices.map((i) => hex(payload(batch, i))))
      entry.intact = memory.add(entry.chain, runs, itemsOf(indices)) && entry.intact
    }
    for (const { chain, plain, intact } of chains.slice(-6)) {
      const held = memory.read(chain)?.map(({ payload }) => hex(payload))
      if (held && intact) expect(held).toEqual(plain)
      if (held && plain.length > 0) lived++
    }
  }
  expect(lived).toBeGreaterThan(500)
})

test('an item comes back as it was, its resource and scope included', () => {
  const memory = spanMemory({ limit: 1e6 })
  const { batch } = scan('traces', fromJson('traces', traces('t', [{ id: 'a', name: 'né' }])))
  const chain = memory.begin()
  expect(memory.add(chain, rowsIn(memory, batch), itemsOf([0]))).toBe(true)
  const [item] = memory.read(chain)!
  expect(item).toEqual({ signal: 'traces', payload: payload(batch, 0), resource: batch.resources[0], scope: batch.scopes[0] })
})

test('a span larger than a segment has one of its own, and is held as long as there is room for it', () => {
  const memory = spanMemory({ limit: 12_000, segmentBytes: 4_000 })
  const [small, large, huge] = [100, 3_800, 13_000].map((length) => batchOf({ id: 'a', name: 'x'.repeat(length) }))
  const chainOf = (batch: typeof small) => {
    const chain = memory.begin()
    memory.add(chain, rowsIn(memory, batch!), itemsOf([0]))
    return chain
  }
  const first = chainOf(large)
  chainOf(small)
  expect(memory.read(first)).toHaveLength(1)
  const second = chainOf(huge)
  expect(memory.read(second)).toHaveLength(1)
  chainOf(small)
  expect([first, second].map(memory.read)).toEqual([null, null])
})

test('what is sent is not written over, however long that takes', () => {
  const memory = spanMemory({ limit: 0, segmentBytes: 4_000 })
  const write = (id: string) => rowsIn(memory, batchOf({ id, name: 'x'.repeat(1_500) }))[0]!.segment
  const sent = write('first')
  expect(memory.take(1)).toBe(sent)
  const before = hex(sent.bytes)
  for (let i = 0; i < 20; i++) write(`${i}`)
  expect(hex(sent.bytes)).toBe(before)
})

test('no more segments are made than there are in use beyond the limit', () => {
  const memory = spanMemory({ limit: 8_000, segmentBytes: 4_000 })
  const buffers = new Set<Buffer>()
  for (let i = 0; i < 100; i++)
    for (const { segment } of rowsIn(memory, batchOf({ id: `${i}`, name: 'x'.repeat(1_000) }))) buffers.add(segment.bytes)
  expect(buffers.size).toBeLessThanOrEqual(3)
})
