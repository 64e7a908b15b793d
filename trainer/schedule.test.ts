import { expect, test } from 'vitest'

import { learningRate } from './schedule.ts'

const rates = (schedule: 'constant' | 'linear' | 'cosine', warmup_steps = 0) =>
  [1, 2, 3, 4, 5, 6, 7, 8].map((step) => learningRate(step, { learning_rate: 1, schedule, warmup_steps, total_steps: 6 }))

test('constant stays as it is', () => expect(rates('constant')).toEqual([1, 1, 1, 1, 1, 1, 1, 1]))

test('warm-up rises evenly to the height, which comes after it', () => {
  expect(rates('constant', 3)).toEqual([0.25, 0.5, 0.75, 1, 1, 1, 1, 1])
})

test('linear falls to 0 after the last step, and stays there', () => {
  for (const [i, wanted] of [1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0, 0].entries()) expect(rates('linear')[i]).toBeCloseTo(wanted, 12)
})

test('cosine falls along half a wave', () => {
  const wave = (progress: number) => (1 + Math.cos(Math.PI * progress)) / 2
  for (const [i, wanted] of [1 / 3, 2 / 3, 1, wave(1 / 4), wave(2 / 4), wave(3 / 4), 0, 0].entries())
    expect(rates('cosine', 2)[i]).toBeCloseTo(wanted, 12)
})
