import { expect, test } from 'vitest'

import { fixture, flat } from '../../test/training.ts'
import { gae } from './gae.ts'
import { whiten } from './whiten.ts'

const { cleanrl, verl_masked, turn_level } = fixture('04_gae')

test('fixtures/rl/04: episodes that end', () => {
  const { rewards, values, next_value, gamma, lambda, expected_adv, expected_returns } = cleanrl
  // The fixture's second episode goes on after its end; ours never do. What is expected then is a reward like any other.
  const second = [rewards[3], rewards[4] + gamma * next_value]
  const [one, two] = [gae(rewards.slice(0, 3), values.slice(0, 3), gamma, lambda), gae(second, values.slice(3), gamma, lambda)]
  close([...one.advantages, ...two.advantages], expected_adv)
  close([...one.returns, ...two.returns], expected_returns)
})

test('fixtures/rl/04: what the environment says is passed over, and the rest whitened', () => {
  const { token_rewards, values, mask, gamma, lambda, expected_adv_raw, expected_adv_whitened, expected_returns } = verl_masked
  const rows = [0, 1].map((i) => gae(flat([token_rewards[i]], [mask[i]]), flat([values[i]], [mask[i]]), gamma, lambda))
  const advantages = rows.flatMap((row) => [...row.advantages])
  close(advantages, flat(expected_adv_raw, mask))
  close(
    rows.flatMap((row) => [...row.returns]),
    flat(expected_returns, mask),
  )
  // Its reference divides by the count + 1e-8.
  close(whiten(advantages), flat(expected_adv_whitened, mask), 8)
})

test('fixtures/rl/04: over turns', () => {
  const { turn_rewards, turn_values, gamma, lambda, expected_adv, expected_returns } = turn_level
  for (const [i, rewards] of turn_rewards.entries()) {
    const { advantages, returns } = gae(rewards, turn_values[i], gamma, lambda)
    close(advantages, expected_adv[i])
    close(returns, expected_returns[i])
  }
})

function close(found: ArrayLike<number>, wanted: ArrayLike<number>, digits = 9) {
  expect(found.length).toBe(wanted.length)
  for (let i = 0; i < wanted.length; i++) expect(found[i]).toBeCloseTo(wanted[i]!, digits)
}
