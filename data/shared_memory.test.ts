import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { copyBytes, takeMemory } from './shared_memory.ts'

test('bytes arrive as Buffer.copy() brings them, wherever either side lies', () => {
  const random = seeded(1)
  const places = [...Array.from({ length: 4 }, () => takeMemory(4_096)), Buffer.alloc(4_096), Buffer.alloc(8_192).subarray(4_096)]
  for (const place of places) for (let i = 0; i < place.length; i++) place[i] = random(256)
  for (let run = 0; run < 2_000; run++) {
    const from = places[random(places.length)]!
    const to = places[random(places.length)]!
    const start = random(4_096)
    const size = random(4_096 - start)
    const at = random(4_096 - size)
    const expected = Buffer.from(to)
    from.copy(expected, at, start, start + size)
    copyBytes(from, start, start + size, to, at)
    expect(to.equals(expected)).toBe(true)
  }
})
