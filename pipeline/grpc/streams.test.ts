import { expect, test } from 'vitest'

import { seeded } from '../../test/random.ts'
import { newCall, type Call } from './call.ts'
import { createStreams } from './streams.ts'

const callOf = (id: number): Call =>
  Object.assign(
    newCall(
      async () => Buffer.alloc(0),
      0.5,
      () => {},
    ),
    { id },
  )

test('calls are found by their ids, however many are open and whatever ids the client leaves out', () => {
  const random = seeded(1)
  const streams = createStreams()
  const open = new Map<number, Call>()
  let id = -1
  for (let i = 0; i < 1_500; i++) {
    if (random(5) < 3) {
      id += 2 * (1 + random(random(4) === 0 ? 600 : 2))
      const call = callOf(id)
      open.set(id, call)
      streams.add(call)
    } else {
      const calls = [...open.values()]
      const call = calls[random(Math.min(calls.length, 300))] ?? callOf(id + 2)
      expect(streams.delete(call)).toBe(open.delete(call.id))
      expect(streams.delete(call)).toBe(false)
    }
    const asked = random(2) === 0 ? 1 + 2 * random((id + 3) / 2) : id
    expect(streams.get(asked)).toBe(open.get(asked))
    expect(streams.size()).toBe(open.size)
  }
  const seen: number[] = []
  streams.forEach((call) => {
    seen.push(call.id)
    streams.delete(call)
  })
  expect(seen.sort((a, b) => a - b)).toEqual([...open.keys()])
  expect(streams.size()).toBe(0)
})
