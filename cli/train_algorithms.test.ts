// What is trained otherwise than all weights by GRPO goes through the same loop: adapters, a value head, rows without token ids.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { readSafetensors } from '../policy/safetensors.ts'
import { fillTable } from '../test/training_table.ts'
import { trainerCommand } from '../test/trainer_command.ts'

let trainer: Awaited<ReturnType<typeof trainerCommand>>
beforeAll(async () => {
  trainer = await trainerCommand()
})
afterAll(() => trainer.close())

const LORA = { lora: { rank: 2, alpha: 4, targets: ['q_proj', 'down_proj'] }, learning_rate: 1e-2 }
const PPO = { algorithm: 'ppo', epochs: 2, minibatches: 2, ppo: { kl_coefficient: 0.01 } }

test.each([
  ['adapters', 'grpo', LORA],
  ['a value head', 'ppo', PPO],
])('%s are trained, saved and gone on from to the last bit', async (_, name, options) => {
  const { storage, run, digest, versionsOf, stepsOf } = trainer
  for (const policy of [`${name}-whole`, `${name}-halves`]) await fillTable(storage, { policy, groups: 4 })
  expect(await run(`${name}-whole`, { ...options, steps: 2 })).toMatchObject({ code: 0 })
  for (const steps of [1, 2]) await run(`${name}-halves`, { ...options, steps })
  expect(digest(`${name}-halves`, 2)).toBe(digest(`${name}-whole`, 2))
  expect(digest(`${name}-whole`, 2)).not.toBe(digest(`${name}-whole`, 1))
  expect(await versionsOf(`${name}-halves`)).toEqual(['0 retired', '1 retired', '2 live'])
  expect((await stepsOf(`${name}-halves`)).map(({ algorithm, trained_tokens }) => [algorithm, trained_tokens])).toEqual([
    [name, 20],
    [name, 20],
  ])
})

test('a version of adapters names its base and holds nothing else', () => {
  const path = join(trainer.folder, 'grpo-whole', '2')
  const { base_model_name_or_path: base } = JSON.parse(readFileSync(join(path, 'adapter_config.json'), 'utf8'))
  expect(existsSync(join(base, 'model.safetensors'))).toBe(true)
  const written = [...readSafetensors(join(path, 'adapter_model.safetensors')).keys()]
  expect(written).toHaveLength(2 * 2 * 2) // pairs of two projections in two layers
  expect(existsSync(join(path, 'model.safetensors'))).toBe(false)
})

test('a value head is no part of what is served, and is kept with the state', async () => {
  const path = join(trainer.folder, 'ppo-whole', '2')
  expect([...readSafetensors(join(path, 'model.safetensors')).keys()].filter((name) => name.includes('value'))).toEqual([])
  const head = readSafetensors(join(path, 'state', 'learner.safetensors')).get('value_head.weight')!
  expect(head.data.some((weight) => weight !== 0)).toBe(true)
  expect((await trainer.stepsOf('ppo-whole'))[1]!.metrics).toMatchObject({ value_loss: expect.any(Number) })
})

test('rows without token ids are refused; where they are allowed, they are read from their text, weigh 1 and are marked', async () => {
  const { storage, run, stepsOf } = trainer
  await fillTable(storage, { policy: 'text', groups: 2, tokens: false })
  const { stdout } = await run('text', { steps: 1, on_breach: 'continue' })
  expect(stdout).toContain('8 transitions refused (no_token_ids)')
  expect(await stepsOf('text')).toMatchObject([{ transitions: 0, refused: { no_token_ids: 8 } }])

  await fillTable(storage, { policy: 'read', groups: 2, tokens: false })
  await run('read', { steps: 1, allow_retokenized: true })
  expect(await stepsOf('read')).toMatchObject([{ transitions: 8, refused: {}, weight_mean: 1 }])
  expect(await storage.rows("SELECT token_source, count() AS rows FROM training_rows WHERE policy = 'read' GROUP BY token_source")).toEqual(
    [{ token_source: 'retokenized', rows: 8 }],
  )
})
