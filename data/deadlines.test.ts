import { expect, test } from 'vitest'

import { deadlines } from './deadlines.ts'

test('what is due comes out in the order of its time, and nothing comes early', () => {
  const waiting = deadlines<number>()
  const times = Array.from({ length: 500 }, (_, i) => (i * 7_919) % 503)
  const taken: number[] = []
  const take = (now: number) => {
    for (let time = waiting.next(now); time !== undefined; time = waiting.next(now)) taken.push(time)
  }
  for (const time of times.slice(0, 250)) waiting.add(time, time)
  take(100)
  const early = times.slice(0, 250).filter((time) => time <= 100)
  expect(taken).toEqual(early.sort((a, b) => a - b))
  for (const time of times.slice(250)) waiting.add(time, time)
  take(502)
  expect(taken.slice(early.length)).toEqual(times.filter((time, i) => i >= 250 || time > 100).sort((a, b) => a - b))
  expect(waiting.next(1e9)).toBeUndefined()
})
