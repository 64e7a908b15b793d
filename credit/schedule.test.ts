import { expect, test } from 'vitest'

import { annealed, oldestVersion, scheduledLambda } from './schedule.ts'

test('lambda goes from 0.8 to 1 over a hundred versions and stays there; calls without a version get 0.95', () => {
  expect([0, 50, 100, 1_000, null].map(scheduledLambda)).toEqual([0.8, 0.9, 1, 1, 0.95])
})

test('the bonus goes to nothing over so many versions and stays there', () => {
  expect([0, 30, 120, 1_000, null].map((version) => annealed(version, 120))).toEqual([1, 0.75, 0, 0, 1])
  expect(annealed(1_000, 0)).toBe(1)
})

test('the oldest version of those that are known counts', () => {
  const versions = (...all: (number | null)[]) => oldestVersion(all.map((policy_version) => ({ policy_version })))
  expect([versions(7, null, 3, 5), versions(null), versions()]).toEqual([3, null, null])
})
