import { expect, test } from 'vitest'

import { fixture, prepare, scoresOf, turn } from '../../test/training.ts'
import { objectiveOf } from './index.ts'

const { groups, ...expected } = fixture('16_dpo_sft')
const turns = Object.entries<[string, number][]>(groups).flatMap(([group_id, members]) =>
  members.map(([name, reward_outcome]) => turn({ group_id, rollout_id: `${group_id} ${name}`, reward_outcome, advantage: null })),
)

test.each([
  ['all', 0.9, 'sft_filter_reward>=0.9'],
  ['best_of_group', 0.1, 'sft_best_of_group_positive'],
])('fixtures/rl/16: keep %s from %f', (keep, min_reward, name) => {
  const { samples } = prepare(objectiveOf('sft', { keep, min_reward }), turns, null)
  const kept = samples.map(({ turns }) => turns[0]!.turn.rollout_id)
  expect(kept).toEqual(expected[name].map((pair: string[]) => pair.join(' ')))
})

test('the loss is the mean over rollouts of the mean negative log-probability of what they wrote', () => {
  const sft = objectiveOf('sft', { keep: 'all' })
  const long = turn({ rollout_id: 'b', response_token_ids: [1, 2, 3, 4], response_logprobs: [] })
  const { loss, logprobs } = sft.loss(
    prepare(sft, [turn({ rollout_id: 'a' }), long], null),
    scoresOf(Float64Array.of(-1, -3, -1, -1, -1, -5)),
  )
  expect(loss).toBeCloseTo((2 + 2) / 2, 12)
  expect([...logprobs]).toEqual([-0.25, -0.25, -0.125, -0.125, -0.125, -0.125])
})
