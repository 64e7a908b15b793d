import { afterAll, beforeAll, expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { trainingOf } from './training.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const insert = (table: string, values: readonly object[]) => storage.client.insert({ table, values, format: 'JSONEachRow' })

/** Rows as no rollout has them: steps that extend any other, one that is not there, or themselves. */
function rowsOf(rollout_id: string, random: (n: number) => number, policy: string, source: string): object[] {
  const steps = Array.from({ length: 12 }, (_, step) => step).filter(() => random(4) > 0)
  const ids = (most: number) => Array.from({ length: random(most) }, () => random(100))
  const texts = (most: number) => Array.from({ length: random(most) }, () => `ä${random(100)}`)
  return steps.map((step) => {
    const response_token_ids = ids(5)
    return {
      ...{ rollout_id, group_id: `group ${policy}`, policy, revision: 1, step, parent_step: random(3) === 0 ? -1 : random(14) - 1 },
      ...{ prompt_messages: JSON.stringify(texts(3)), completion: random(4) > 0 ? JSON.stringify(texts(2)) : '', tools: '["t"]' },
      ...{ prompt_token_ids: ids(4), prefix_length: random(9), response_token_ids, response_logprobs: response_token_ids.map(() => -0.5) },
      ...{ token_source: source, credit_version: 1, params: '{"seed":1}' },
    }
  })
}

test.each(['none', 'engine'])('turns of source %s have the prompts that transitions_full has', async (source) => {
  const random = seeded(7)
  const rollouts = Array.from({ length: 40 }, (_, i) => `${source}${String(i).padStart(2, '0')}`)
  const rows = rollouts.flatMap((rollout_id) => rowsOf(rollout_id, random, source, source))
  await insert('transition_rows', rows)
  await insert(
    'rollouts',
    rollouts.map((rollout_id) => ({ rollout_id, revision: 1 })),
  )
  const list = rollouts.map((id) => `'${id}'`).join(',')
  const columns = `rollout_id, step, prompt_token_ids, response_token_ids${source === 'none' ? ', prompt_messages, completion, tools' : ''}`
  const expected = await storage.rows(`SELECT ${columns} FROM transitions_full(rollouts = [${list}]) ORDER BY rollout_id, step`)
  const turns = await trainingOf(storage.client, source).transitions([`group ${source}`], 1)
  expect(expected).toHaveLength(rows.length)
  expect(turns).toHaveLength(rows.length)
  for (const [i, turn] of turns.entries()) expect(turn).toMatchObject(expected[i]!)
})

test('a turn that is not wanted is part of the prompts of those that are', async () => {
  const row = { rollout_id: 'part', group_id: 'part', policy: 'part', revision: 1, token_source: 'engine', credit_version: 1 }
  await insert('transition_rows', [
    { ...row, step: 0, prompt_token_ids: [1], response_token_ids: [2] },
    { ...row, step: 1, parent_step: 0, prefix_length: 2, prompt_token_ids: [3], response_token_ids: [4] },
  ])
  await insert('rollouts', [{ rollout_id: 'part', revision: 1 }])
  await insert('training_rows', [{ policy: 'part', rollout_id: 'part', step: 0, epoch: 1, update: 1 }])
  const turns = await trainingOf(storage.client, 'part').transitions(['part'], 2)
  expect(turns.map(({ step, prompt_token_ids }) => [step, prompt_token_ids])).toEqual([[1, [1, 2, 3]]])
})

test('a batch has as many rollouts as its groups have', async () => {
  const rollouts = Array.from({ length: 10_000 }, (_, i) => `${i}-${'of-a-long-id'.repeat(3)}`)
  const row = { group_id: 'many', policy: 'many', revision: 1, token_source: 'engine', response_token_ids: [1], credit_version: 1 }
  await insert(
    'transition_rows',
    rollouts.map((rollout_id) => ({ ...row, rollout_id })),
  )
  await insert(
    'rollouts',
    rollouts.map((rollout_id) => ({ rollout_id, revision: 1 })),
  )
  expect(await trainingOf(storage.client, 'many').transitions(['many'], 1)).toHaveLength(rollouts.length)
})
