import { expect, test } from 'vitest'

import { experiments } from './experiments.ts'
import { halves, markdown, median, picture } from './report.ts'
import type { Result } from './seed.ts'

const experiment = experiments.find(({ name }) => name === 'multi_hop')!
const point = (version: number, reward: number) => ({ version, reward, rollouts: 100 })
const result = (seed: number, trained: number): Result => ({
  seed,
  train: [point(0, 0.2), point(1, trained)],
  steps: [],
  evaluations: [point(0, 0.13), point(1, trained)],
  tokens: 500_000,
  updating: 20,
  endings: { succeeded: 900, limit: 50, unscored: 10 },
  seconds: 60,
})
const failed: Result = {
  seed: 3,
  train: [],
  steps: [],
  evaluations: [],
  tokens: 0,
  updating: 0,
  endings: {},
  seconds: 0,
  failure: 'trainer ended with exit code 1',
}

test('every seed stands in the table: one that did not learn, one that failed and why, and how rollouts ended', () => {
  const table = markdown(experiment, [{ variant: '', results: [result(1, 0.81), result(2, 0.1), failed] }])
  expect(table).toContain('| multi_hop | 0.13 | **0.10** | 0.81, 0.10, – | 2 | 0.50 M | 20 s | 1,920, 100 limit, 20 unscored | 60 s |')
  expect(table).toContain('- multi_hop, seed 3 did not come to its end: trainer ended with exit code 1')
})

test('a seed that did not come to its end counts as the worst', () => {
  expect(median([NaN, 0.9, 0.8])).toBe(0.8)
  expect(median([NaN, NaN, 0.9])).toBe(-Infinity)
})

test('a rise is told from every rollout once, however few a step had', () => {
  const step = (reward: number, rollouts: number) => ({ reward, rollouts })
  const [before, after] = halves([step(0.2, 100), step(0.8, 300), step(1, 300), step(0.6, 100)])
  expect(before).toBeCloseTo(0.65, 12)
  expect(after).toBeCloseTo(0.9, 12)
})

test('the picture has a curve for each seed and one for their median', () => {
  const drawn = picture(experiment, [{ variant: '', results: [result(1, 0.81), result(2, 0.1), failed] }])
  expect(drawn.match(/<polyline/g)).toHaveLength(4)
  expect(drawn).not.toContain('NaN')
})

test('the picture goes as far as the last evaluation, though nothing more was drawn with that version', () => {
  const { evaluations } = result(1, 0.81)
  const drawn = picture(experiment, [{ variant: '', results: [{ ...result(1, 0.81), evaluations: [...evaluations, point(4, 0.8)] }] }])
  expect(drawn).toContain('version 4</text>')
})
