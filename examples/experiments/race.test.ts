import { expect, test } from 'vitest'

import { updatesUntilSuccess } from './race.ts'

const repeated = (reward: number, times: number) => Array.from({ length: times }, () => ({ reward }))

test('updates are counted until ten in a row succeed four times in five, taken together', () => {
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(0.875, 10)])).toBe(7)
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(1, 8)])).toBe(5)
})

test('who never gets there takes for ever', () => {
  expect(updatesUntilSuccess([])).toBe(Infinity)
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(0.875, 9)])).toBe(Infinity)
})
