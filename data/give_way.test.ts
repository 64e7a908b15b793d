import { expect, test } from 'vitest'

import { giveWay } from './give_way.ts'

test('however long and manifold the work, the event loop goes on between its steps', async () => {
  let turns = 0
  let working = true
  const count = () => {
    turns++
    if (working) setImmediate(count)
  }
  setImmediate(count)
  const work = async () => {
    for (let step = 0; step < 6; step++) {
      for (const end = performance.now() + 5; performance.now() < end;);
      await giveWay()
    }
  }
  await Promise.all([work(), work(), work()])
  working = false
  // Steps of 15 ms between turns of 10 ms at most; without them the work would end before the first.
  expect(turns).toBeGreaterThan(3)
})
