import { readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

import { f1, reward, score } from './score.ts'

interface Case {
  readonly pred: string
  readonly gold: string
  readonly f1: number
  readonly reward_format1: number
  readonly reward_format0: number
}
const { cases } = JSON.parse(readFileSync('test/fixtures/rl/15_f1_reward.json', 'utf8')) as { cases: Case[] }

test.each(cases)('"$pred" for "$gold" has an F1 of $f1 and the rewards of the fixture', (c) => {
  expect(f1(c.pred, c.gold)).toBeCloseTo(c.f1, 12)
  expect(reward(c.pred, c.gold, true)).toBeCloseTo(c.reward_format1, 12)
  expect(reward(c.pred, c.gold, false)).toBeCloseTo(c.reward_format0, 12)
})

test('an answer without its tags, or with words beside them, loses a tenth', () => {
  expect(score('<answer> kim reed </answer>', 'kim reed')).toBeCloseTo(1, 12)
  expect(score('kim reed', 'kim reed')).toBeCloseTo(0.9, 12)
  expect(score('<answer> kim reed', 'kim reed')).toBeCloseTo(0.9, 12)
})
