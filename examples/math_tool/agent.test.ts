// The agent as it is, in Python, through the whole loop: ten steps of 48 rollouts. Needs its packages, as requirements.txt names them.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, test } from 'vitest'

import { experiments } from '../experiments/experiments.ts'
import { halves } from '../experiments/report.ts'
import { runTrial, shortForm } from '../experiments/seed.ts'

const experiment = experiments.find(({ name }) => name === 'math_tool')!
const [python] = experiment.worker as [string]
const there = spawnSync(python, ['-c', 'import autogen_agentchat, opentelemetry.sdk']).status === 0

/** What is sampled depends on timing: ten steps may fall short by chance, though not again and again. */
const TRIES = 3
const MOST_MS = 180_000
/** For its processes to end. */
const GRACE_MS = 10_000
const SHORT = shortForm(10, 6)
// Of a step's six groups four have signal, more or less.
const CHANGES = ['extensions::trainer::groups_per_step: 4']

test.skipIf(!there)(
  `its reward rises${there ? '' : ` (skipped: ${python} has no AutoGen)`}`,
  { timeout: MOST_MS, retry: TRIES - 1 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'leyden-math-tool-'))
    try {
      const trial = { experiment, ...SHORT, group_size: 8, ahead: 1, changes: CHANGES, folder } as const
      const { steps, endings } = await runTrial(trial, { told: () => {}, signal: AbortSignal.timeout(MOST_MS - GRACE_MS) })
      const [before, after] = halves(steps)
      expect(after - before).toBeGreaterThan(0.05)
      expect(endings).toEqual({ succeeded: SHORT.steps * SHORT.tasks_per_step * 8 })
    } finally {
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    }
  },
)
