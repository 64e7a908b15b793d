// Turns and steps for tests of the trainer: what storage would give, without a storage.

import { readFileSync } from 'node:fs'

import type { Objective, Prepared, ScoresLike } from '../trainer/algorithm.ts'
import { batchOf } from '../trainer/batch.ts'
import { mergeTurns } from '../trainer/merge.ts'
import type { Sample, Turn } from '../trainer/row.ts'
import { seeded } from './random.ts'

export const fixture = (name: string) => JSON.parse(readFileSync(`test/fixtures/rl/${name}.json`, 'utf8'))

export const turn = (over: Partial<Turn> = {}): Turn => ({
  rollout_id: 'r',
  attempt_id: '0',
  step: 0,
  group_id: 'g',
  agent: 'solver',
  policy_version: 1,
  prompt_token_ids: [1, 2, 3],
  response_token_ids: [10, 11],
  response_logprobs: [-0.1, -0.2],
  token_source: 'engine',
  params: {},
  finish_reason: 'stop',
  reward_outcome: 1,
  reward_intermediate: null,
  return: 1,
  advantage: 0.5,
  weight: 1,
  ...over,
})

/** One rollout of one turn for each row of a fixture; masked tokens are none. A row without any gives no turn. */
export function turnsOfRows(mask: number[][], of: (row: number) => Partial<Turn>, sampler?: number[][]): Turn[] {
  return mask.flatMap((row, i) => {
    const kept = unmasked(row, row)
    const response_logprobs = sampler ? unmasked(sampler[i]!, row) : kept.map(() => -1)
    const rollout_id = `r${String(i).padStart(3, '0')}`
    return kept.length > 0 ? [turn({ rollout_id, response_token_ids: kept.map(() => 5), response_logprobs, ...of(i) })] : []
  })
}

/** [N] of a fixture's [rows, tokens]. */
export const flat = (values: number[][], mask: number[][]): Float64Array =>
  Float64Array.from(values.flatMap((row, i) => unmasked(row, mask[i]!)))

const unmasked = (values: number[], mask: number[]) => values.filter((_, t) => mask[t] === 1)

/** Scores of which only log-probabilities matter. */
export const scoresOf = (logprobs: Float64Array, values: Float64Array | null = null): ScoresLike => ({
  logprobs,
  entropies: new Float64Array(logprobs.length),
  values,
})

export function samplesOf(turns: readonly Turn[], objective: Objective, maxTokens = 1000): readonly Sample[] {
  return mergeTurns(turns, objective, { rows: 'merged', max_tokens: maxTokens }).samples
}

/** A step as the loop prepares it; `old` null: the weights at its start are the current ones. */
export function prepare(
  objective: Objective,
  turns: readonly Turn[],
  old: ScoresLike | null,
  reference: Float64Array | null = null,
): Prepared {
  return objective.prepare(batchOf(samplesOf(turns, objective), old, reference))
}

/**
 * Groups of rollouts of up to four turns, in which a turn's prompt is all that was said before it and a few words more; with answers of many
 * lengths, two agents, and all that a turn can earn.
 */
export function conversations(seed: number, groups = 3, size = 3): Turn[] {
  const draw = seeded(seed)
  const real = () => draw(10_000) / 10_000
  const turns: Turn[] = []
  for (let group = 0; group < groups; group++) {
    for (let member = 0; member < size; member++) {
      let said = [1, 2 + group]
      const agent = group === 0 && member > 0 ? 'checker' : 'solver'
      for (let step = 0; step <= draw(4); step++) {
        const prompt_token_ids = [...said, ...Array.from({ length: draw(4) }, () => draw(50))]
        const response_token_ids = Array.from({ length: 1 + draw(6) }, () => draw(50))
        said = [...prompt_token_ids, ...response_token_ids]
        turns.push(
          turn({
            rollout_id: `g${group}m${member}`,
            group_id: `g${group}`,
            step,
            agent,
            prompt_token_ids,
            response_token_ids,
            response_logprobs: response_token_ids.map(() => -2 * real() - 0.01),
            reward_outcome: real(),
            reward_intermediate: step % 2 === 0 ? real() / 10 : null,
            return: real(),
            advantage: real() - 0.5,
          }),
        )
      }
    }
  }
  return turns
}

/** What a model could have said of these rows; a token's figures depend on what stands before it in its own conversation, not on its row. */
export function modelScores(samples: readonly Sample[], seed: number): ScoresLike {
  const figures = samples.flatMap(({ tokens, scored }) =>
    [...tokens.keys()].filter((t) => scored[t] === 1).map((t) => seeded(seed + hash(tokens.subarray(0, t + 1)))),
  )
  const column = (of: (draw: (n: number) => number) => number) => Float64Array.from(figures, of)
  return {
    logprobs: column((draw) => -draw(20_000) / 10_000 - 0.01),
    entropies: column((draw) => draw(20_000) / 10_000),
    values: column((draw) => draw(10_000) / 10_000),
  }
}

const hash = (tokens: Int32Array) => tokens.reduce((sum, token) => (Math.imul(sum, 31) + token + 7) | 0, 17)
