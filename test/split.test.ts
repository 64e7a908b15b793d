// Pipeline, endpoint and trainer as processes of their own, joined by ClickHouse, files and OTLP: a policy is trained on what it answered.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { rollouts } from '../cli/rollouts.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { policiesOf } from '../storage/policies.ts'
import { runCommand } from './command.ts'
import { freePort } from './leyden.ts'
import { spawnLeyden, type LeydenProcess } from './process.ts'
import { stopEmbedded } from './storage.ts'

const ROOT = join(import.meta.dirname, '..')
const WORKER = join(ROOT, 'dist', 'examples', 'demo', 'light_worker.js')

const folder = mkdtempSync(join(tmpdir(), 'leyden-'))
const url = `embedded:${join(folder, 'data')}`
const processes: LeydenProcess[] = []
let storage: OpenStorage
let ports: { grpc: number; http: number; scores: number; openai: number }

beforeAll(async () => {
  ports = { grpc: await freePort(), http: await freePort(), scores: await freePort(), openai: await freePort() }
  start(['run', ...config('pipeline')], {
    'receivers.otlp.protocols.grpc.endpoint': `127.0.0.1:${ports.grpc}`,
    'receivers.otlp.protocols.http.endpoint': `127.0.0.1:${ports.http}`,
    'receivers.scores.endpoint': `127.0.0.1:${ports.scores}`,
  })
  start(['train', ...config('pipeline', 'trainer'), '--steps', '1'], {
    'extensions.trainer.groups_per_step': '2',
    'extensions.trainer.learning_rate': '0.001',
    'extensions.trainer.kernels': 'decomp',
  })
  start(['run', ...config('endpoint')], {
    'receivers.openai.endpoint': `127.0.0.1:${ports.openai}`,
    'exporters.otlp_http.endpoint': `http://127.0.0.1:${ports.http}`,
  })
  await processes[0]!.says('Everything is ready')
  await processes[2]!.says('A version of a policy answers')
  storage = await openStorage({ url })
}, 60_000)

afterAll(async () => {
  await Promise.all(processes.map((process) => process.stop('SIGTERM')))
  await storage.close()
  await stopEmbedded(join(folder, 'data'))
  rmSync(folder, { recursive: true })
})

const config = (...names: string[]) => names.flatMap((name) => ['--config', join(ROOT, 'config', `${name}.yaml`)])

/** In a folder of its own, as on a machine of its own; only the database and the versions are shared. */
function start(args: string[], set: Record<string, string>): void {
  const settings = {
    ...set,
    'service.telemetry.metrics': '{level: none}',
    ...(args[0] === 'run' ? { 'extensions.health_check.endpoint': 'localhost:0' } : {}),
  }
  const flags = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`])
  const env = {
    CLICKHOUSE_URL: url,
    LEYDEN_BASE: join(ROOT, 'examples', 'demo', 'base'),
    LEYDEN_POLICIES: join(folder, 'policies'),
  }
  processes.push(spawnLeyden([...args, ...flags], { cwd: mkdtempSync(join(folder, 'machine-')), env }))
}

test('what the endpoint answered trains a version, and the endpoint answers with it', async () => {
  const tasks = [
    { question: 'Ann has 45 apples and eats 7 . How many now ?', answer: 38 },
    { question: 'Bob has 12 nuts and buys 30 . How many now ?', answer: 42 },
  ]
  writeFileSync(join(folder, 'tasks'), tasks.map((task) => JSON.stringify(task)).join('\n'))
  process.env.LEYDEN_SCORES = `http://127.0.0.1:${ports.scores}`
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${ports.http}`
  const { code, stderr } = await runCommand(rollouts, [
    ...['run', '--tasks', join(folder, 'tasks'), '--url', url, '--otlp', `http://127.0.0.1:${ports.http}`, '--steps', '2', '--ahead', '0'],
    ...['--endpoint', `http://127.0.0.1:${ports.openai}`, '--group-size', '8', '--tasks-per-step', '2'],
    ...['--workers', '1', '--concurrency', '16', '--', process.execPath, WORKER],
  ])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect((await policiesOf(storage.client).live('default'))?.version).toBe(1)
  const ask = () =>
    fetch(`http://127.0.0.1:${ports.openai}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'default', messages: [{ role: 'user', content: tasks[0]!.question }] }),
    }).then((response) => response.json() as Promise<{ system_fingerprint: string }>)
  const until = Date.now() + 10_000
  let answer = await ask()
  while (answer.system_fingerprint !== 'default@1' && Date.now() < until) answer = await ask()
  expect(answer.system_fingerprint).toBe('default@1')
  const lacking = async () => {
    const rows = await storage.client.query({
      query: 'SELECT countIf(reward_outcome IS NULL) AS unscored, countIf(empty(response_token_ids)) AS without_tokens FROM transitions',
      format: 'JSONEachRow',
    })
    return rows.json()
  }
  // A score may come after its rollout was closed.
  await expect.poll(lacking, { timeout: 10_000 }).toEqual([{ unscored: 0, without_tokens: 0 }])
}, 60_000)
