// Training, through ClickHouse, not past it: rollouts are spans, the trainer is a process of its own, versions are files.

import { afterEach, expect, test } from 'vitest'

import { BASE } from './calculator.ts'
import { openArena, type Arena } from './train.ts'

const STEPS = 20
const GROUPS = 8

let arena: Arena | undefined
afterEach(async () => {
  await arena?.close()
  arena = undefined
})

test.each([1, 2])(
  'a policy of 50,000 parameters learns to use its calculator: seed %i',
  async (seed) => {
    const config = `
extensions:
  trainer: {base: ${BASE}, groups_per_step: ${GROUPS}, learning_rate: 0.001, kernels: decomp, seed: ${seed}, steps: ${STEPS}}
service: {extensions: [clickhouse_storage, trainer]}
`
    arena = await openArena(config, seed)
    for (let step = 1; step <= STEPS; step++) {
      await arena.live(step - 1)
      await arena.play(step, GROUPS)
    }
    await arena.live(STEPS)
    const steps = await arena.leyden.query<{ success: number }>('SELECT * FROM training_steps FINAL ORDER BY step')
    const mean = (some: { success: number }[]) => some.reduce((sum, { success }) => sum + success, 0) / some.length
    expect(steps).toHaveLength(STEPS)
    expect(mean(steps.slice(-5)) - mean(steps.slice(0, 5))).toBeGreaterThan(0.15)
  },
  300_000,
)
