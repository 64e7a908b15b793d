import { expect, test } from 'vitest'

import { prepare, turn } from '../test/training.ts'
import { objectiveOf } from './algorithms/index.ts'
import { BOUNDS, checkBatch, checkFigures } from './self_check.ts'
import type { Turn } from './row.ts'

const check = (over: Partial<Turn>[], name: 'grpo' | 'sft' = 'grpo') => {
  const objective = objectiveOf(name)
  const turns = over.map((fields, i) => turn({ rollout_id: `r${i}`, ...fields }))
  return checkBatch(prepare(objective, turns, null), objective, (version) => version <= 3)
}
const good = { reward_outcome: 1, return: 1, advantage: 0.5 }
const bad = { reward_outcome: 0, return: 0, advantage: -0.5 }

test('a step with signal is let through', () => expect(check([good, bad])).toEqual([]))

test.each([
  [
    'every advantage is 0: nothing tells good turns from bad ones',
    [
      { ...good, advantage: 0 },
      { ...bad, advantage: 0 },
    ],
  ],
  ['an advantage is not a number', [{ ...good, advantage: NaN }, bad]],
  ['every rollout has the same reward (1): is it computed?', [good, { ...good, advantage: -0.5 }]],
  ['1 of 2 turns do not say which version of the policy answered', [good, { ...bad, policy_version: null }]],
  [
    'answered by versions that were never published: 4, 9',
    [
      { ...good, policy_version: 4 },
      { ...bad, policy_version: 9 },
    ],
  ],
  ['no turn is left to learn from', []],
])('before its updates: %s', (breach, turns) => expect(check(turns)).toEqual([breach]))

test('sft imitates answers of any model', () => expect(check([{ ...good, policy_version: null }], 'sft')).toEqual([]))

test('equal rewards with different returns are no breach, nor are those that sft chose', () => {
  expect(check([good, { ...bad, reward_outcome: 1 }])).toEqual([])
  expect(
    check(
      [
        { ...good, group_id: 'a' },
        { ...good, group_id: 'b' },
      ],
      'sft',
    ),
  ).toEqual([])
})

const figures = { loss: 0.1, kl: 0.01, entropy: 0.5, clip_fraction: 0.1, weight_mean: 1, weight_ess: 1, weight_truncated: 0, metrics: {} }

test('figures in bounds are let through', () => expect(checkFigures(figures, 1, BOUNDS)).toEqual([]))

test.each([
  [{ entropy: 0 }, 'entropy is 0, below 0.0001: the policy always answers the same'],
  [{ entropy: 9.876 }, 'entropy is 9.88, above 8: the policy answers noise'],
  [{ clip_fraction: 0.75 }, 'the clip held 0.75 of all tokens, more than 0.5: the learning rate is too high'],
  [{ kl: 3 }, 'the step went 3 nats per token, more than 1: the learning rate is too high'],
  [{ metrics: { value_loss: Infinity } }, 'value_loss is Infinity'],
  [{ loss: NaN }, 'loss is NaN'],
])('after its updates: %j', (over, breach) => expect(checkFigures({ ...figures, ...over }, 1, BOUNDS)).toEqual([breach]))

test('a gradient that is not a number is said', () => expect(checkFigures(figures, NaN, BOUNDS)).toEqual(['grad_norm is NaN']))
