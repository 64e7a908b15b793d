import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { attendHead, attendPair } from './attention.ts'
import { BLOCK } from './kv_cache.ts'

test('two heads that share keys and values get, to the bit, what each gets alone', () => {
  const random = seeded(1)
  const numbers = (length: number) => Float32Array.from({ length }, () => random(2_000) / 500 - 2)
  for (let run = 0; run < 200; run++) {
    const width = 1 + random(40)
    const offset = random(20)
    const kvWidth = width + offset + random(20)
    const count = 1 + random(5 * BLOCK)
    const blocks = Array.from({ length: Math.ceil(count / BLOCK) }, () => random(8))
    const cache = { keys: numbers(8 * BLOCK * kvWidth), values: numbers(8 * BLOCK * kvWidth), kvWidth, offset, width }
    const query = numbers(2 * width)
    const scores = new Float32Array(2 * count)
    const [alone, together] = [new Float32Array(2 * width), new Float32Array(2 * width)]

    for (const head of [0, width]) attendHead(cache, blocks, count, query, head, scores, alone, head)
    attendPair(cache, blocks, count, query, 0, scores, together, 0)

    expect(together).toEqual(alone)
  }
})
