// npm run demo, cut off after four steps, of which the last wait for an update and so for what version 0 did to be stored: whether the policy learns is what the demo itself finds out, and test/training.test.ts tests.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, expect, test } from 'vitest'

import { stopEmbedded } from './storage.ts'

const folder = mkdtempSync(join(tmpdir(), 'leyden-demo-test-'))
afterAll(async () => {
  for (const demo of readdirSync(folder)) await stopEmbedded(join(folder, demo, 'data'))
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

test('the demo goes through the whole loop, draws each version and ends with the SQL that proves it', { timeout: 120_000 }, () => {
  const env = { ...process.env, DEMO_STEPS: '4', TMPDIR: folder }
  const { stdout, stderr } = spawnSync(process.execPath, ['dist/examples/demo/run.js'], { encoding: 'utf8', env })
  expect(stderr).toBe('')
  expect(stdout).toMatch(/version +0 ▕.*▏ 0\.\d\d {2}\d+ rollouts\n/)
  expect(stdout).toMatch(/│ +0 │ +\d+ │ +0\.\d+ │/)
  expect(stdout).toMatch(/success rose from 0\.\d\d to \d\.\d\d\n/)
})
