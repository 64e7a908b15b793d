import { expect, test } from 'vitest'

import { races } from './experiments.ts'
import { racePicture, updatesUntilSuccess } from './race.ts'

const repeated = (reward: number, times: number) => Array.from({ length: times }, () => ({ reward }))

test('updates are counted until ten in a row succeed four times in five, taken together', () => {
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(0.875, 10)])).toBe(7)
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(1, 8)])).toBe(5)
})

test('the picture counts updates, and its median goes as far as most of the seeds', () => {
  const race = races[0]!
  const steps = (count: number) => Array.from({ length: count }, () => ({ reward: 0.5, rollouts: 32 }))
  const nothing = { train: [], evaluations: [], tokens: 0, updating: 0, endings: {}, seconds: 0 }
  const results = [20, 30, 40].map((count, i) => ({ ...nothing, seed: i + 1, steps: steps(count) }))
  const drawn = racePicture(race, [{ variant: 'terminal', results }])
  expect(drawn).toContain('long_horizon: reward by update')
  const lengths = [...drawn.matchAll(/points="([^"]+)"/g)].map(([, points]) => points!.split(' ').length)
  expect(lengths).toEqual([20, 30, 40, 30])
})

test('who never gets there takes for ever', () => {
  expect(updatesUntilSuccess([])).toBe(Infinity)
  expect(updatesUntilSuccess([...repeated(0, 7), ...repeated(0.875, 9)])).toBe(Infinity)
})
