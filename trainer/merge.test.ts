import { describe, expect, test } from 'vitest'

import { fixture, turn } from '../test/training.ts'
import { mergeTurns } from './merge.ts'

const weighing = { learns_from: 'advantage', weighs: true } as const
const merge = (turns: ReturnType<typeof turn>[], objective: Parameters<typeof mergeTurns>[1] = weighing, max_tokens = 100) =>
  mergeTurns(turns, objective, { rows: 'merged', max_tokens })

describe('fixtures/rl/14', () => {
  const { transitions, expected_rows, merged_tokens } = fixture('14_prefix_merge')
  // Its last turns carry no log-probabilities, which only an objective that does not weigh accepts.
  const { samples } = merge(
    transitions.map((t: any, step: number) => turn({ ...t, step, response_logprobs: t.logprobs ?? [] })),
    { learns_from: 'advantage', weighs: false },
  )

  test('turns that extend each other by token ids are one row, another tokenisation begins a new one', () => {
    expect(samples.map(({ turns }) => turns.map((span) => span.turn.step))).toEqual(expected_rows.map((row: any) => row.turns))
    expect(samples.reduce((sum, { tokens }) => sum + tokens.length, 0)).toBe(merged_tokens)
    for (const [i, { prompt, response }] of expected_rows.entries()) expect([...samples[i]!.tokens]).toEqual([...prompt, ...response])
  })

  test('only what the policy wrote is scored, and each token knows its turn', () => {
    for (const [i, { prompt, mask, turn_of_token, turns: steps }] of expected_rows.entries()) {
      const { scored, turns, sampler } = samples[i]!
      expect([...scored]).toEqual([...prompt.map(() => 0), ...mask])
      const written = turn_of_token.filter((step: number) => step >= 0)
      expect(turns.flatMap(({ turn, from, to }) => Array<number>(to - from).fill(turn.step))).toEqual(written)
      // The fixture drops those of a whole row where one turn has none; here only that turn's are unknown.
      const said = steps.flatMap((step: number) => transitions[step].logprobs ?? transitions[step].response_token_ids.map(() => NaN))
      expect([...sampler]).toEqual(said)
    }
  })
})

test('where each turn is to be a row, none goes on in another', () => {
  const turns = [turn(), turn({ step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4] })]
  const { samples } = mergeTurns(turns, weighing, { rows: 'per_turn', max_tokens: 100 })
  expect(samples.map(({ tokens, scored }) => [tokens.length, [...scored].filter(Boolean).length])).toEqual([
    [5, 2],
    [8, 2],
  ])
})

test('rows are kept apart by rollout, attempt, agent and temperature', () => {
  const first = turn()
  const next = { step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4] }
  expect(merge([first, turn(next)]).samples).toHaveLength(1)
  for (const over of [{ rollout_id: 's' }, { attempt_id: '1' }, { agent: 'checker' }, { params: { temperature: 0.7 } }])
    expect(merge([first, turn({ ...next, ...over })]).samples).toHaveLength(2)
})

test('agents that take turns each have a row of their own', () => {
  const said = { solver: [1], checker: [2] }
  const turns = [0, 1, 2, 3, 4, 5].map((step) => {
    const agent = step % 2 === 0 ? 'solver' : 'checker'
    const prompt_token_ids = said[agent]
    said[agent] = [...prompt_token_ids, 10, 11, 7]
    return turn({ step, agent, prompt_token_ids })
  })
  expect(merge(turns).samples.map(({ turns }) => turns.map((span) => span.turn.step))).toEqual([
    [0, 2, 4],
    [1, 3, 5],
  ])
})

test('two answers to one prompt are two rows, and the next prompt extends the one that it contains', () => {
  const { samples } = merge([
    turn({ step: 0, response_token_ids: [10, 11] }),
    turn({ step: 1, response_token_ids: [12, 13] }),
    turn({ step: 2, prompt_token_ids: [1, 2, 3, 12, 13, 4] }),
  ])
  expect(samples.map(({ turns }) => turns.map((span) => span.turn.step))).toEqual([[0], [1, 2]])
})

test('rows come in the same order, in whatever order turns came', () => {
  const turns = ['b', 'a', 'c'].flatMap((rollout_id) => [
    turn({ rollout_id }),
    turn({ rollout_id, step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4] }),
  ])
  expect(merge(turns.toReversed())).toEqual(merge(turns))
})

test('a row grows no longer than allowed', () => {
  const turns = [turn(), turn({ step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4] })]
  expect(merge(turns, weighing, 8).samples).toHaveLength(1)
  expect(
    merge(
      [turn(), turn({ step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4], response_token_ids: [5], response_logprobs: [-1] })],
      weighing,
      6,
    ),
  ).toMatchObject({ samples: [{ turns: [{ turn: { step: 0 } }] }], refused: [{ turn: { step: 1 }, reason: 'too_long' }] })
})

test('tokens that a form forced on the policy are text that it did not choose; imitation learns from them as well', () => {
  const held = turn({ response_logprobs: [NaN, -0.5] })
  const { samples, refused } = merge([held, turn({ step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4] })])
  expect(refused).toEqual([])
  expect(samples).toHaveLength(1)
  expect([...samples[0]!.scored]).toEqual([0, 0, 0, 0, 1, 0, 1, 1])
  expect([...samples[0]!.sampler].slice(0, 1)).toEqual([-0.5])
  expect(samples[0]!.turns.map(({ from, to }) => [from, to])).toEqual([
    [0, 1],
    [1, 3],
  ])
  expect([...merge([held], { learns_from: 'advantage', weighs: false }).samples[0]!.scored]).toEqual([0, 0, 0, 1, 1])
})

test('turns that nothing is learned from are text in the prompt of later ones', () => {
  const outage = turn({ step: 1, prompt_token_ids: [1, 2, 3, 10, 11, 4], weight: 0 })
  const { samples, refused } = merge([turn(), outage, turn({ step: 2, prompt_token_ids: [1, 2, 3, 10, 11, 4, 10, 11, 6] })])
  expect(refused).toEqual([])
  expect(samples).toHaveLength(1)
  expect([...samples[0]!.scored]).toEqual([0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1])
  expect(merge([turn({ advantage: null })])).toEqual({ samples: [], refused: [] })
})

describe('turns whose importance weights would be wrong are refused by name', () => {
  test.each([
    ['top_p', { params: { top_p: 0.9 } }],
    ['top_k', { params: { top_k: 40 } }],
    ['min_p', { params: { min_p: 0.05 } }],
    ['temperature_0', { params: { temperature: 0 } }],
    ['penalty', { params: { frequency_penalty: 0.5 } }],
    ['penalty', { params: { repetition_penalty: 1.1 } }],
    ['raw_logprobs', { params: { temperature: 0.7 }, token_source: 'attribute' }],
    ['no_logprobs', { response_logprobs: [] }],
    ['no_logprobs', { response_logprobs: [-0.1] }],
    ['forced', { response_logprobs: [NaN, NaN] }],
  ] as const)('%s: %j', (reason, over) => {
    expect(merge([turn(over)])).toMatchObject({ samples: [], refused: [{ reason, turn: over }] })
    // Imitation does not ask how likely they were.
    expect(merge([turn(over)], { learns_from: 'advantage', weighs: false })).toMatchObject({ samples: [{ temperature: 1 }], refused: [] })
  })

  test.each([
    ['a temperature of the own endpoint', { params: { temperature: 0.7 } }, 0.7],
    ['what switches nothing on', { params: { temperature: 1, top_p: 1, top_k: 0, presence_penalty: 0 }, token_source: 'raw_body' }, 1],
    ['ids made from text, which have no log-probabilities', { token_source: 'retokenized', response_logprobs: [] }, 1],
  ] as const)('but not %s', (_, over, temperature) => {
    expect(merge([turn(over)])).toMatchObject({ samples: [{ temperature }], refused: [] })
  })
})

test.each([
  ['no_token_ids', { token_source: 'none' }],
  ['no_token_ids', { response_token_ids: [] }],
  ['no_prompt', { prompt_token_ids: [] }],
  ['too_long', { prompt_token_ids: Array.from({ length: 99 }, () => 1) }],
] as const)('nobody can learn from turns with %s', (reason, over) => {
  expect(merge([turn(over)], { learns_from: 'advantage', weighs: false })).toMatchObject({ samples: [], refused: [{ reason }] })
})
