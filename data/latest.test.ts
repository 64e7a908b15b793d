import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { latest } from './latest.ts'

test.each([1, 2, 3])('so many keys are remembered, those that were first set last, each with its latest value (seed %i)', (seed) => {
  const random = seeded(seed)
  const limit = 1 + random(8)
  const remembered = latest<number>(limit)
  const plain: { key: string; value: number }[] = []
  for (let step = 0; step < 1_000; step++) {
    const key = `k${random(20)}`
    const known = plain.find((one) => one.key === key)
    expect(remembered.has(key)).toBe(known !== undefined)
    expect(remembered.get(key)).toBe(known?.value)
    remembered.set(key, step)
    if (known) known.value = step
    else plain.push({ key, value: step })
    if (plain.length > limit) plain.shift()
  }
})
