import { expect, test } from 'vitest'

import { races } from './experiments.ts'
import { racePicture, raceTable, updatesUntilSuccess } from './race.ts'
import type { Result } from './seed.ts'

const race = races[0]!
const repeated = (reward: number, times: number) => Array.from({ length: times }, () => ({ reward, rollouts: 32 }))
const result = (seed: number, steps: Result['steps']): Result => {
  return { seed, steps, train: [], evaluations: [], tokens: 0, updating: 0, endings: {}, seconds: 0 }
}

test('updates are counted until ten in a row succeed four times in five, taken together', () => {
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(0.875, 10)])).toBe(7)
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(1, 8)])).toBe(5)
})

test('who never gets there takes for ever', () => {
  expect(updatesUntilSuccess([])).toBe(Infinity)
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(0.875, 9)])).toBe(Infinity)
})

test('where the first arm never got there, another took less than a share of what the first was given', () => {
  const never = { variant: 'terminal', results: [result(1, repeated(0, race.most_updates))] }
  const there = { variant: 'potential', results: [result(1, [...repeated(0, 22), ...repeated(1, 8)])] }
  expect(raceTable(race, [never, there])).toContain('| potential | **20** | 20 | < 0.18 |')
})

test('the picture counts updates, and its median goes as far as most of the seeds', () => {
  const results = [20, 30, 40].map((count, i) => result(i + 1, repeated(0.5, count)))
  const drawn = racePicture(race, [{ variant: 'terminal', results }])
  expect(drawn).toContain('long_horizon: reward by update')
  const lengths = [...drawn.matchAll(/points="([^"]+)"/g)].map(([, points]) => points!.split(' ').length)
  expect(lengths).toEqual([20, 30, 40, 30])
})

test('a seed that has arrived counts in the median with its last reward', () => {
  const arrived = result(1, repeated(1, 20))
  const drawn = racePicture(race, [
    { variant: 'potential', results: [arrived, arrived, result(3, repeated(0, 40)), result(4, repeated(0, 40)), arrived] },
  ])
  const median = [...drawn.matchAll(/points="([^"]+)"/g)].at(-1)![1]!
  expect(new Set(median.split(' ').map((point) => point.split(',')[1])).size).toBe(1)
})
