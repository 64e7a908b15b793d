// Training, through ClickHouse, not past it: rollouts are spans, the trainer is a process of its own, versions are files.

import { expect, test } from 'vitest'

import { openArena } from './train.ts'

const STEPS = 20
const GROUPS = 8

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

// Both at once: each waits for its trainer half of the time.
test.concurrent.each([1, 2])(
  'a policy of 50,000 parameters learns to use its calculator: seed %i',
  async (seed) => {
    const arena = await openArena({ groups_per_step: GROUPS, learning_rate: 0.001, seed, steps: STEPS }, seed)
    try {
      for (let step = 1; step <= STEPS; step++) {
        await arena.live(step - 1)
        await arena.play(step, GROUPS)
      }
      await arena.live(STEPS)
      // Of all that a version sampled, not only of what taught it something.
      const versions = await arena.leyden.query<{ success: number }>('SELECT success FROM policy_progress ORDER BY policy_version')
      const success = versions.map((version) => version.success)
      expect(success).toHaveLength(STEPS)
      expect(mean(success.slice(-5)) - mean(success.slice(0, 5))).toBeGreaterThan(0.15)
    } finally {
      await arena.close()
    }
  },
  300_000,
)
