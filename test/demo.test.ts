// npm run demo, cut off after four steps, of which the last wait for an update and so for what version 0 did to be stored: whether the policy learns is what the demo itself finds out, and test/training.test.ts tests.
// A worker is killed meanwhile; `npm run bench -- kill` kills the others as well.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, expect, test } from 'vitest'

import { processesBelow } from './process.ts'
import { stopEmbedded } from './storage.ts'

const folder = mkdtempSync(join(tmpdir(), 'leyden-demo-test-'))
afterAll(async () => {
  for (const demo of readdirSync(folder)) await stopEmbedded(join(folder, demo, 'data'))
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

test(
  'the demo goes through the whole loop, draws each version and ends with the SQL that proves it, though a worker is killed',
  { timeout: 120_000 },
  async () => {
    const env = { ...process.env, DEMO_STEPS: '4', TMPDIR: folder }
    const demo = spawn(process.execPath, ['dist/examples/demo/run.js'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let [stdout, stderr] = ['', '']
    demo.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    demo.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const ended = once(demo, 'close')
    const running = () => demo.exitCode === null
    const run = () => join(folder, readdirSync(folder).find((name) => name.startsWith('leyden-demo-')) ?? '')
    const log = () => (existsSync(join(run(), 'rollouts.log')) ? readFileSync(join(run(), 'rollouts.log'), 'utf8') : '')
    while (running() && !log().includes('step 0')) await sleep(100)
    // Its rollouts of the next step are tried again by the one that takes its place: cli/rollouts.test.ts looks at how.
    const worker = processesBelow(demo.pid!).find(({ line }) => /^\S+ \S*demo\/worker\.js$/.test(line))!
    process.kill(worker.pid, 'SIGKILL')
    await ended
    expect(stderr).toBe('')
    expect(stdout).toMatch(/version +0 ▕.*▏ 0\.\d\d {2}\d+ rollouts\n/)
    expect(stdout).toMatch(/│ +0 │ +\d+ │ +0\.\d+ │/)
    expect(stdout).toMatch(/success rose from 0\.\d\d to \d\.\d\d\n/)
  },
)
