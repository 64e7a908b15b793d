import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { CALL, newCall, putResponse, recentCalls } from './recent_calls.ts'

function call(id: string, scope: string, start: number, end: number) {
  const record = newCall()
  putResponse(record, Buffer.from(id))
  record.scope = scope
  record.numbers[CALL.start] = start
  record.numbers[CALL.end] = end
  return record
}

test('two records of one call are by two instrumentations and overlap', () => {
  const note = recentCalls(10)
  expect(note('t1', call('r', 'openai', 10, 20))).toBeUndefined()
  expect(note('t2', call('r', 'langchain', 5, 25))).toBe('t1')
  expect(note('t3', call('r', 'openai', 10, 20))).toBeUndefined()
  expect(note('t4', call('r', 'langchain', 30, 40))).toBeUndefined()
  expect(note('t5', call('s', 'langchain', 5, 25))).toBeUndefined()
})

test.each([1, 2, 3])('so many calls are remembered as a plain list would remember them (seed %i)', (seed) => {
  const random = seeded(seed)
  const limit = 20
  const note = recentCalls(limit)
  const plain: { id: string; trace: string; scope: string }[] = []
  for (let step = 0; step < 5_000; step++) {
    const [id, scope, trace] = [`r${random(60)}`, `s${random(2)}`, `t${step}`]
    const known = plain.find((one) => one.id === id)
    expect(note(trace, call(id, scope, 0, 1))).toBe(known && known.scope !== scope ? known.trace : undefined)
    if (known) continue
    plain.push({ id, trace, scope })
    if (plain.length > limit) plain.shift()
  }
})

test('no two of a hundred thousand ids have one key', () => {
  const keys = new Set(Array.from({ length: 100_000 }, (_, i) => call(`chatcmpl-${i}`, '', 0, 0).numbers[CALL.response]))
  expect(keys.size).toBe(100_000)
})
