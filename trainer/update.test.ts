// Algorithms and a real model together: what is exact on paper (algorithms/index.test.ts) holds in single precision, and teaches.

import { join } from 'node:path'

import { afterEach, expect, test } from 'vitest'

import { openLearner } from '../policy/learner.ts'
import type { Learner } from '../policy/learning.ts'
import { samplesOf, turn } from '../test/training.ts'
import type { Objective } from './algorithm.ts'
import { objectiveOf, type AlgorithmName } from './algorithms/index.ts'
import type { Sample, Turn } from './row.ts'
import { prepareStep, updateLearner } from './update.ts'

const open: Learner[] = []
afterEach(() => open.splice(0).forEach((learner) => learner.close()))

async function learnerFor({ value_head }: Objective): Promise<Learner> {
  const learner = await openLearner({
    ...{ base: join(import.meta.dirname, '../test/fixtures/policy/llama'), backend: 'wasm', kernels: 'decomp' },
    ...{ value_head, tokens_per_pass: 256, seed: 1 },
    optimizer: { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0, clip_norm: 1 },
  })
  open.push(learner)
  return learner
}

/** Two groups of four rollouts of two turns; half of each are good. */
const turns: Turn[] = ['a', 'b'].flatMap((group_id, g) =>
  [0, 1, 2, 3].flatMap((member) => {
    const [reward, rollout_id] = [member % 2, `${group_id}${member}`]
    const said = [5 + g, 9, 20 + member, 30 + 7 * member]
    const credit = { group_id, rollout_id, reward_outcome: reward, return: reward, advantage: reward - 0.5, response_logprobs: [] }
    return [
      turn({ ...credit, prompt_token_ids: said.slice(0, 2), response_token_ids: said.slice(2) }),
      turn({ ...credit, step: 1, prompt_token_ids: [...said, 11, 12], response_token_ids: [40 + member, 50 - member, 60] }),
    ]
  }),
)

/** The same turns with the log-probabilities of the learner itself. */
async function sampled(learner: Learner): Promise<Turn[]> {
  const samples = samplesOf(turns, { ...objectiveOf('grpo'), weighs: false })
  const { logprobs } = await learner.score(samples)
  let start = 0
  return samples.flatMap(({ turns, sampler }) => {
    const own = turns.map(({ turn, from, to }) => ({ ...turn, response_logprobs: [...logprobs.subarray(start + from, start + to)] }))
    start += sampler.length
    return own
  })
}

async function update(learner: Learner, objective: Objective, samples: readonly Sample[], tokens_per_pass = 256, epochs = 1) {
  const step = await prepareStep(learner, objective, samples, epochs)
  return updateLearner(learner, objective, step, { epochs, minibatches: 1, tokens_per_pass, learning_rate: 3e-3, random: () => 0 })
}

test.each<[AlgorithmName, Record<string, number | string>]>([
  ['grpo', {}],
  ['grpo', { kl_coefficient: 0.1, kl_estimator: 'rho_k3', entropy_coefficient: 0.001 }],
  ['rloo', {}],
  ['reinforce_pp', { kl_coefficient: 0.01 }],
  ['ppo', { value_coefficient: 0.1 }],
  ['sft', {}],
])('%s %j makes good answers likelier, beside bad ones', async (name, options) => {
  const objective = objectiveOf(name, options)
  const learner = await learnerFor(objective)
  const samples = samplesOf(await sampled(learner), objective)
  const lead = async () => {
    const { logprobs } = await learner.score(samples)
    let start = 0
    return samples.reduce((sum, { turns, sampler }) => {
      const mean = logprobs.slice(start, (start += sampler.length)).reduce((a, b) => a + b, 0) / sampler.length
      return sum + (turns[0]!.turn.return === 1 ? mean : -mean)
    }, 0)
  }
  const before = await lead()
  const first = await update(learner, objective, samples)
  expect(first).toMatchObject({ weight_mean: expect.closeTo(1, 4), weight_ess: expect.closeTo(1, 4), weight_truncated: 0 })
  for (let step = 0; step < 3; step++) await update(learner, objective, samples, 256, 2)
  expect((await lead()) - before).toBeGreaterThan(1)
})

test.each(['grpo', 'ppo'] as const)('%s: one row or many, one pass or many, the update is the same', async (name) => {
  const objective = objectiveOf(name, { entropy_coefficient: 0.01 })
  const rows = await sampled(await learnerFor(objective))
  const merged = samplesOf(rows, objective)
  const alone = rows.flatMap((row) => samplesOf([row], objective))
  expect([merged.length, alone.length]).toEqual([8, 16])
  const whole = await update(await learnerFor(objective), objective, merged)
  for (const again of [
    await update(await learnerFor(objective), objective, alone),
    await update(await learnerFor(objective), objective, merged, 20),
  ]) {
    expect(again.loss).toBeCloseTo(whole.loss, 6)
    expect(again.entropy).toBeCloseTo(whole.entropy, 5)
    expect(again.grad_norm / whole.grad_norm).toBeCloseTo(1, 4)
  }
})
