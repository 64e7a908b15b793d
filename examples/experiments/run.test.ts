// The command of the experiments as a user starts it, and ends it before it is through.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'

import { openStorage } from '../../storage/open.ts'
import { processes } from '../../test/process.ts'
import { stopEmbedded } from '../../test/storage.ts'
import { rowsOf } from '../clickhouse.ts'

const RUN = fileURLToPath(new URL('../../dist/examples/experiments/run.js', import.meta.url))
const ENDED = "SELECT count() AS ended FROM rollouts FINAL WHERE mode = 'train' AND status = 'succeeded'"

test('SIGTERM ends an experiment with all of its processes, and what was done until then is kept', { timeout: 120_000 }, async () => {
  const results = mkdtempSync(join(tmpdir(), 'leyden-experiments-'))
  const folder = join(results, 'short', 'text_to_sql')
  const data = join(folder, 'data')
  const child = spawn(process.execPath, [RUN, 'text_to_sql', '--short', '--results', results], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill())
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  const closed = once(child, 'close')
  const ended = async () => (await rowsOf<{ ended: number }>(data, ENDED).catch(() => []))[0]?.ended ?? 0
  const before = await vi.waitUntil(async () => existsSync(data) && (await ended()), { timeout: 100_000, interval: 100 })
  child.kill('SIGTERM')

  expect(await closed).toEqual([143, null])
  expect(said).toContain('ended by SIGTERM; the same command goes on from here')
  expect(processes().filter(({ line }) => line.includes(folder))).toEqual([])

  const storage = await openStorage({ url: `embedded:${data}` })
  expect(await ended()).toBeGreaterThanOrEqual(before)
  await storage.close()
  await stopEmbedded(data)
})
