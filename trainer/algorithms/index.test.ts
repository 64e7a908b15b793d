import { describe, expect, test } from 'vitest'

import { seeded } from '../../test/random.ts'
import { conversations, modelScores, samplesOf } from '../../test/training.ts'
import type { Loss, Prepared, ScoresLike } from '../algorithm.ts'
import { batchOf, partsOf, updatesOf } from '../batch.ts'
import { figuresOf } from '../figures.ts'
import type { Sample, Turn } from '../row.ts'
import { algorithms, objectiveOf, type AlgorithmName } from './index.ts'

const kl = { kl_coefficient: 0.1 }
const all: [AlgorithmName, Record<string, number | string>][] = [
  ['grpo', {}],
  ['grpo', { loss_mean: 'token', clip_high: 0.28, max_response_tokens: 6, overlong_buffer: 3, entropy_coefficient: 0.01 }],
  ['grpo', { loss_mean: 'constant', ...kl, off_policy_delta: 0.1 }],
  ['grpo', { loss_mean: 'turn', ...kl, kl_estimator: 'rho_k3', dual_clip: 1.5 }],
  ['rloo', { loss_mean: 'turn_sum', ...kl }],
  ['reinforce_pp', { gamma: 0.9, ...kl, entropy_coefficient: 0.01 }],
  ['reinforce_pp', { baseline: 'group', loss_mean: 'token' }],
  ['ppo', { gamma: 0.99, lambda: 0.9, ...kl, entropy_coefficient: 0.01 }],
  ['sft', {}],
  ['sft', { keep: 'all', min_reward: 0.2, loss_mean: 'token' }],
]

/** A step's loss over rows in any order and grouping, with the derivatives of each turn's tokens. */
function lossOf(
  name: AlgorithmName,
  options: Record<string, number | string>,
  samples: readonly Sample[],
  divide = (step: Prepared) => [step],
) {
  const objective = objectiveOf(name, options)
  const step = objective.prepare(batchOf(samples, modelScores(samples, 1), modelScores(samples, 3).logprobs))
  const parts = divide(step)
  const losses = parts.map((part) => objective.loss(part, modelScores(part.samples, 2)))
  return {
    loss: losses.reduce((sum, { loss }) => sum + loss, 0),
    figures: figuresOf(
      losses.map(({ tally }) => tally),
      1,
    ),
    slopes: new Map(parts.flatMap(({ turns }, i) => turns.map(({ turn, from, to }) => [turn, slopesOf(losses[i]!, from, to)] as const))),
  }
}

function slopesOf({ logprobs, entropies, values }: Loss, from: number, to: number): number[] {
  return [logprobs, entropies, values].flatMap((column) => (column ? [...column.subarray(from, to)] : []))
}

function same(found: ReturnType<typeof lossOf>, wanted: ReturnType<typeof lossOf>) {
  expect(found.loss).toBeCloseTo(wanted.loss, 12)
  for (const [name, value] of Object.entries({ ...wanted.figures, ...wanted.figures.metrics }))
    if (typeof value === 'number') expect({ ...found.figures, ...found.figures.metrics }[name], name).toBeCloseTo(value, 10)
  expect(found.slopes.size).toBe(wanted.slopes.size)
  for (const [turn, slopes] of wanted.slopes) expect(apart(found.slopes.get(turn)!, slopes)).toBeLessThan(1e-12)
}

/** The largest difference. */
const apart = (found: readonly number[] | Float64Array, wanted: readonly number[] | Float64Array) =>
  Math.max(...Array.from(wanted, (value, i) => Math.abs(found[i]! - value)))

const alone = (turns: readonly Turn[], name: AlgorithmName) => turns.flatMap((turn) => samplesOf([turn], objectiveOf(name)))

describe.each(all)('%s %j', (name, options) => {
  const turns = conversations(7, 4, 4)
  const samples = samplesOf(turns, objectiveOf(name))
  const whole = lossOf(name, options, samples)

  test('micro-batches are the same as one batch', () => {
    same(
      lossOf(name, options, samples, (step) => partsOf(step, 30)),
      whole,
    )
  })

  test('turns merged into rows are the same as each turn alone', () => {
    const single = alone(turns, name)
    expect(single.length).toBeGreaterThan(samples.length)
    same(lossOf(name, options, single), whole)
  })

  test('the order of rows is nothing', () => {
    // Of equally good rollouts sft keeps the first; here no two are.
    same(lossOf(name, options, samples.toReversed()), whole)
  })

  test('derivatives are those of the loss, by finite differences', () => {
    // Weights of rloo are functions of the current policy that are not differentiated: here they are all cut, and constant.
    const objective = objectiveOf(name, { ...options, ...(name === 'rloo' && { weight_cap: 1 }) })
    const few = conversations(7, 2, 3)
    const rows = samplesOf(name === 'rloo' ? few.map(unlikely) : few, objective)
    const old = modelScores(rows, 1)
    const step = objective.prepare(batchOf(rows, old, modelScores(rows, 3).logprobs))
    const scores = near(modelScores(step.samples, 1))
    const found = objective.loss(step, scores)
    const columns = { logprobs: found.logprobs, entropies: found.entropies, values: found.values }
    for (const [column, slopes] of Object.entries(columns)) {
      const differences = Array.from(step.sampler, (_, t) => {
        const at = (by: number) => objective.loss(step, moved(scores, column as keyof typeof columns, t, by)).loss
        return (at(1e-5) - at(-1e-5)) / 2e-5
      })
      expect(apart(differences, slopes ?? differences.map(() => 0)), column).toBeLessThan(1e-8)
    }
  })

  test('weights at the step’s start are the current ones where there is one update only', () => {
    const objective = objectiveOf(name, options)
    if (objective.old) return
    const scores = modelScores(samples, 1)
    const reference = modelScores(samples, 3).logprobs
    const current = (step: Prepared) => modelScores(step.samples, 1)
    const unsaid = objective.prepare(batchOf(samples, null, reference))
    const said = objective.prepare(batchOf(samples, scores, reference))
    expect(objective.loss(unsaid, current(unsaid))).toEqual(objective.loss(said, current(said)))
  })

  test('updates share out whole rollouts, and each is a step of its own', () => {
    const objective = objectiveOf(name, options)
    const step = objective.prepare(batchOf(samples, modelScores(samples, 1), modelScores(samples, 3).logprobs))
    const random = seeded(5)
    const updates = updatesOf(step, 3, () => random(1000) / 1000)
    const rollouts = updates.map((update) => [...new Set(update.turns.map(({ turn }) => turn.rollout_id))])
    expect(rollouts.flat().toSorted()).toEqual([...new Set(step.turns.map(({ turn }) => turn.rollout_id))].toSorted())
    const weight = ({ scale }: Prepared) => scale.reduce((sum, s) => sum + s, 0)
    if (['rollout', 'token', 'turn'].includes(step.mean.over)) for (const update of updates) expect(weight(update)).toBeCloseTo(1, 12)
    expect(updatesOf(step, 1, () => 0)).toEqual([step])
  })
})

test.each(Object.keys(algorithms) as AlgorithmName[])(
  '%s has its file’s name, and each option a sentence and a default that it allows',
  (name) => {
    const { type, summary, options } = algorithms[name]
    expect(type).toBe(name)
    for (const option of [{ doc: summary }, ...Object.values(options)]) expect(option.doc).toMatch(/\.$/)
    for (const option of Object.values(options)) {
      if ('values' in option) expect(option.values).toContain(option.default)
      else if (typeof option.default === 'number') {
        const { min = -Infinity, max = Infinity } = option as { min?: number; max?: number }
        expect(option.default).toBeGreaterThanOrEqual(min)
        expect(option.default).toBeLessThanOrEqual(max)
      }
    }
  },
)

const unlikely = (turn: Turn): Turn => ({ ...turn, response_logprobs: Array.from(turn.response_token_ids, () => -15) })

/** A policy that has moved: some ratios within the clip, some beyond, none where a derivative has two sides. */
function near({ logprobs, entropies, values }: ScoresLike): ScoresLike {
  const random = seeded(11)
  const by = () => (random(2000) - 999.63) / 2000
  return { logprobs: logprobs.map((x) => x + by()), entropies, values: values!.map((x) => x + by()) }
}

function moved(scores: ScoresLike, column: 'logprobs' | 'entropies' | 'values', t: number, by: number): ScoresLike {
  const values = Float64Array.from(scores[column]!)
  values[t]! += by
  return { ...scores, [column]: values }
}
