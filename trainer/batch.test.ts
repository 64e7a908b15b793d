import { describe, expect, test } from 'vitest'

import { conversations, modelScores, prepare, samplesOf, turn } from '../test/training.ts'
import { objectiveOf } from './algorithms/index.ts'
import { batchOf, partsOf, toScoreGradients, updatesOf } from './batch.ts'

const grpo = objectiveOf('grpo')
const samples = samplesOf(conversations(3), grpo)
const scores = modelScores(samples, 1)
const step = grpo.prepare(batchOf(samples, scores, scores.logprobs))

test('columns stand row by row, with the places of each turn', () => {
  expect(step.sampler).toEqual(Float64Array.from(samples.flatMap(({ sampler }) => [...sampler])))
  expect(step.turns.map(({ to }) => to)).toEqual([...step.turns.slice(1).map(({ from }) => from), step.sampler.length])
  for (const { turn, from, to } of step.turns) expect([...step.sampler.subarray(from, to)]).toEqual(Array.from(turn.response_logprobs))
})

describe('what a token counts', () => {
  // Rollout a: answers of 1 and 3 tokens; rollout b: one of 2.
  const turns = [
    turn({ rollout_id: 'a', response_token_ids: [5], response_logprobs: [-1] }),
    turn({ rollout_id: 'a', step: 1, prompt_token_ids: [9], response_token_ids: [5, 5, 5], response_logprobs: [-1, -1, -1] }),
    turn({ rollout_id: 'b' }),
  ]
  test.each([
    ['rollout', [1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 4, 1 / 4]],
    ['token', [1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6]],
    ['turn', [1 / 3, 1 / 9, 1 / 9, 1 / 9, 1 / 6, 1 / 6]],
    ['turn_sum', [1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3]],
    ['constant', [1 / 30, 1 / 30, 1 / 30, 1 / 30, 1 / 30, 1 / 30]],
  ])('in a mean over %s', (loss_mean, wanted) => {
    const { scale } = prepare(objectiveOf('grpo', { loss_mean, max_response_tokens: 10 }), turns, null)
    for (const [t, value] of wanted.entries()) expect(scale[t]).toBeCloseTo(value, 14)
  })
})

test('parts are consecutive rows that fit together; a row that does not fit is alone', () => {
  const longest = Math.max(...samples.map(({ tokens }) => tokens.length))
  for (const room of [1, longest, 3 * longest]) {
    const parts = partsOf(step, room)
    expect(parts.flatMap((part) => part.samples)).toEqual(samples)
    for (const part of parts)
      if (part.samples.length > 1) expect(part.samples.reduce((sum, { tokens }) => sum + tokens.length, 0)).toBeLessThanOrEqual(room)
  }
  expect(partsOf(step, 1)).toHaveLength(samples.length)
  expect(partsOf(step, Infinity)).toEqual([step])
})

test('parts keep what belongs to their tokens', () => {
  const parts = partsOf(step, 20)
  const joined = (of: (part: (typeof parts)[number]) => ArrayLike<number>) => parts.flatMap((part) => Array.from(of(part)))
  expect(joined((part) => part.advantages)).toEqual([...step.advantages])
  expect(joined((part) => part.scale)).toEqual([...step.scale])
  expect(joined((part) => part.reference!)).toEqual([...step.reference!])
  expect(joined((part) => part.old!.logprobs)).toEqual([...step.old!.logprobs])
  expect(joined((part) => part.old!.values!)).toEqual([...step.old!.values!])
})

test('more updates than rollouts are as many as there are rollouts', () => {
  const rollouts = new Set(step.turns.map(({ turn }) => turn.rollout_id)).size
  expect(updatesOf(step, 1000, () => 0)).toHaveLength(rollouts)
})

test('the learner gets single precision, and no columns that a loss does not have', () => {
  const gradients = toScoreGradients(grpo.loss(step, scores))
  expect(gradients.logprobs).toBeInstanceOf(Float32Array)
  expect(Object.keys(gradients)).toEqual(['logprobs'])
})
