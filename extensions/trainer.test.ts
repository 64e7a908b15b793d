import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { BASE } from '../test/calculator.ts'
import { configure, conforms, problems, testContext } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { fillTable } from '../test/training_table.ts'
import trainer from './trainer.ts'

const base = './models/base'

describe('trainer', () => {
  conforms(trainer, { base })

  test('a schedule that ends needs to know where', () => {
    expect(problems(trainer, { base, schedule: 'cosine' })).toEqual(['schedule: must be constant where "steps" is not set (got "cosine")'])
    expect(problems(trainer, { base, schedule: 'cosine', steps: 100 })).toEqual([])
  })

  test('an algorithm has its options below its own name, checked like any other', () => {
    expect(problems(trainer, { base, algorithm: 'grpo', grpo: { clip_high: 0.28 } })).toEqual([])
    expect(problems(trainer, { base, grpo: { clip_hihg: 0.28 } })).toEqual([
      'trainer::grpo::clip_hihg: unknown option, did you mean "clip_high"?',
    ])
  })
})

describe('its process', () => {
  let storage: TestStorage
  let folder: string
  beforeAll(async () => {
    storage = await testStorage()
    folder = await mkdtemp(join(tmpdir(), 'leyden-trainer-'))
  })
  afterAll(async () => {
    await storage.close()
    await rm(folder, { recursive: true, force: true })
  })

  function start(policy: string, more: object = {}) {
    const context = testContext({ kind: 'extension', extensions: { clickhouse_storage: storage } })
    const options = { policy, base: BASE, policies_dir: folder, groups_per_step: 2, kernels: 'decomp', ...more }
    const extension = configure(trainer, options, context)
    extension.ready!()
    return { context, stop: () => extension.shutdown!() }
  }
  const soon = { timeout: 20_000 }

  test('trains, tells each step in the log and as metrics, and ends when it is told to', async () => {
    await fillTable(storage, { policy: 'steps', groups: 2 })
    const { context, stop } = start('steps')
    await expect.poll(() => context.counts.leyden_trainer_steps, soon).toBe(1)
    expect(context.counts).toMatchObject({ leyden_trainer_transitions: 8, leyden_trainer_dropped_groups: 0 })
    const read = (name: string) => context.gauges[`leyden_trainer_${name}`]!()
    expect([read('step'), read('version'), read('reward'), read('success')]).toEqual([1, 1, 0.5, 0.5])
    expect(context.lines.map(({ text }) => text)).toContainEqual(expect.stringMatching(/^info step 1 {2}reward 0\.500/))
    await stop()
    expect(context.lines.at(-1)!.text).toBe('warn steps: interrupted after step 1')
    expect(context.problem()).toBeNull()
  })

  test('is started again when it dies, and health says why it did', async () => {
    const { context, stop } = start('baseless', { base: join(folder, 'nowhere') })
    await expect.poll(() => context.counts.leyden_trainer_restarts, soon).toBe(2)
    expect(context.problem()).toMatch(/^the trainer ended: Error: .*nowhere\/config\.json does not exist/)
    await stop()
  })

  test('is left alone when it pauses, and health says what to mend', async () => {
    await fillTable(storage, { policy: 'paused', groups: 2, version: 7 })
    const { context, stop } = start('paused', { max_staleness: 0 })
    await expect.poll(() => context.problem(), soon).toMatch(/^training is paused: .*answered by versions that were never published: 7/)
    expect(context.counts.leyden_trainer_restarts).toBeUndefined()
    await stop()
  })
})
