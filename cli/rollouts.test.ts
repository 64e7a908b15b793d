import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { trainerLease } from '../storage/lease.ts'
import { openStorage } from '../storage/open.ts'
import { policiesOf } from '../storage/policies.ts'
import { rolloutRun } from '../storage/rollout_run.ts'
import { runCommand } from '../test/command.ts'
import { startLeyden, type Leyden } from '../test/leyden.ts'
import type { Order } from '../agent/order.ts'
import { rollouts } from './rollouts.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../test/fixtures/workers/${name}`, import.meta.url))

let leyden: Leyden

beforeAll(async () => {
  leyden = await startLeyden()
})

afterAll(() => leyden.remove())

/** Files of one run, and the run itself. */
function setUp(tasks: readonly object[]) {
  const name = `run-${randomUUID().slice(0, 8)}`
  const path = (suffix: string) => join(leyden.folder, `${name}.${suffix}`)
  writeFileSync(path('tasks'), tasks.map((task) => JSON.stringify(task)).join('\n'))
  const worker = [process.execPath, fixture('scripted.mjs'), path('orders')]
  return {
    name,
    path,
    worker,
    orders: (): Order[] => (existsSync(path('orders')) ? jsonLines(readFileSync(path('orders'), 'utf8')) : []),
    run: (flags: readonly string[], command = worker) =>
      runCommand(rollouts, [
        ...['run', '--name', name, '--tasks', path('tasks'), '--url', `embedded:${leyden.folder}`, '--otlp', leyden.url],
        ...[...flags, '--', ...command],
      ]),
    rows: (count: number) =>
      leyden.rows<Record<string, unknown>>(
        count,
        `SELECT group_id, group_size, mode, task_id, rollout_id, attempt_id, status, closed_by, outcome
         FROM rollouts FINAL WHERE startsWith(group_id, '${name}/') ORDER BY group_id, rollout_id`,
      ),
  }
}

const jsonLines = (text: string): Order[] => text.split('\n').flatMap((line) => (line ? [JSON.parse(line) as Order] : []))

const python = spawnSync('python3', ['--version']).status === 0

test.each([
  ['Node', true, process.execPath, 'scripted.mjs'],
  ['Python (not tried where there is no python3)', python, 'python3', 'scripted.py'],
])('workers in %s: rollouts are closed at once, with group, status and reward', async (_, there, program, script) => {
  if (!there) return
  const { run, rows, orders, path, name } = setUp([
    { task_id: 'a', reward: 1 },
    { task_id: 'b', reward: 0.5 },
  ])
  const { code, stdout } = await run(
    ['--steps', '1', '--group-size', '2', '--tasks-per-step', '2', '--workers', '2', '--endpoint', 'http://endpoint:1/'],
    [program, fixture(script), path('orders')],
  )
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'step 0: 4 rollouts, mean reward 0.750\n' })
  const closed = await rows(4)
  expect(closed.map(({ group_id, task_id, outcome }) => [group_id, task_id, outcome])).toEqual(
    [0, 0, 1, 1].map((visit) => {
      const { task_id } = closed.find(({ group_id }) => group_id === `${name}/${visit}`)!
      return [`${name}/${visit}`, task_id, task_id === 'a' ? 1 : 0.5]
    }),
  )
  for (const row of closed) expect(row).toMatchObject({ group_size: 2, mode: 'train', status: 'succeeded', closed_by: 'end' })
  expect(orders()).toHaveLength(4)
  const [{ rollout_id, attempt_id, base_url, traceparent, ...order }] = orders() as [Order]
  expect(order).toMatchObject({ group_size: 2, mode: 'train', model: 'default', sampling_parameters: {} })
  expect(base_url).toBe(`http://endpoint:1/rollout/${rollout_id}/attempt/${attempt_id}/v1`)
  expect(traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
})

test('tasks are shuffled by the seed, each once before any comes again', async () => {
  const { run, orders } = setUp([...'abcdef'].map((task_id) => ({ task_id, reward: 1 })))
  await run(['--steps', '2', '--group-size', '1', '--tasks-per-step', '6', '--workers', '1'])
  const asked = orders().map(({ task_id }) => task_id)
  expect(asked.slice(0, 6).sort()).toEqual([...'abcdef'])
  expect(asked.slice(6).sort()).toEqual([...'abcdef'])
  expect(asked.slice(0, 6)).not.toEqual(asked.slice(6))
})

test('a lost worker has its rollout tried again, and the lost attempt is closed too', async () => {
  const { path, run, rows } = setUp([])
  writeFileSync(path('tasks'), JSON.stringify({ die: path('died'), reward: 1 }))
  const { code } = await run(['--steps', '1', '--group-size', '1', '--tasks-per-step', '1', '--workers', '1'])
  expect(code).toBe(0)
  const attempts = await rows(2)
  expect(new Set(attempts.map(({ rollout_id }) => rollout_id)).size).toBe(1)
  expect(attempts.map(({ status, outcome }) => `${String(status)} ${String(outcome)}`).sort()).toEqual(['failed null', 'succeeded 1'])
})

test('a worker that hangs is replaced, and its rollout ends with status timeout', async () => {
  const { run, rows } = setUp([{ hang: true }, { reward: 1 }])
  const { code } = await run(['--steps', '1', '--group-size', '1', '--tasks-per-step', '2', '--workers', '1', '--timeout', '1'])
  expect(code).toBe(0)
  expect((await rows(2)).map(({ status }) => status).sort()).toEqual(['succeeded', 'timeout'])
})

test('workers that only ever end are given up, with their exit code', async () => {
  const { run } = setUp([{ reward: 1 }])
  const { code, stderr } = await run(['--steps', '1', '--workers', '1'], [process.execPath, '-e', 'process.exit(7)'])
  expect(code).toBe(1)
  expect(stderr).toMatch(/3 workers in a row ended without an answer \(exit code 7\)/)
})

test('what ended is not run again when the run is started again', async () => {
  const { run, rows, orders } = setUp([{ reward: 1 }])
  const flags = ['--group-size', '2', '--tasks-per-step', '1', '--workers', '1', '--steps']
  await run([...flags, '1'])
  await rows(2)
  await run([...flags, '2'])
  expect(orders()).toHaveLength(4)
  expect(new Set(orders().map(({ rollout_id }) => rollout_id)).size).toBe(4)
})

test('the live version is evaluated greedily and stays pinned; such rollouts are of mode val', async () => {
  const { run, rows, orders, path, name } = setUp([{ reward: 1 }])
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const policies = policiesOf(storage.client)
  await policies.publish({ policy: name, version: 3, base: '', path: '/x', parent: null, status: 'live', trained_on: {}, metrics: {} })
  await storage.close()
  writeFileSync(path('eval'), JSON.stringify({ task_id: 'e', reward: 0.25 }))
  const { stdout } = await run([
    ...['--policy', name, '--eval-tasks', path('eval'), '--eval-every', '2', '--steps', '1'],
    ...['--group-size', '1', '--tasks-per-step', '1', '--workers', '1'],
  ])
  expect(stdout).toContain('step 0: 1 rollouts of evaluation, mean reward 0.250\n')
  const [order] = orders().filter(({ mode }) => mode === 'val')
  expect(order).toMatchObject({ model: `${name}@3`, sampling_parameters: { temperature: 0 }, group_id: `${name}/val@3/0` })
  expect(order!.base_url).toContain('/mode/val/v1')
  expect((await rows(2)).map(({ mode }) => mode).sort()).toEqual(['train', 'val'])
})

test('beside a trainer, the first evaluation waits for the version that it begins with', async () => {
  const { run, orders, path, name } = setUp([{ reward: 1 }])
  writeFileSync(path('eval'), JSON.stringify({ task_id: 'e', reward: 0.25 }))
  const running = run([
    ...['--policy', name, '--ahead', '1', '--eval-tasks', path('eval'), '--steps', '1'],
    ...['--group-size', '1', '--tasks-per-step', '1', '--workers', '1'],
  ])
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  await sleep(300)
  expect(orders()).toEqual([])
  const policies = policiesOf(storage.client)
  await policies.publish({ policy: name, version: 0, base: '', path: '/x', parent: null, status: 'live', trained_on: {}, metrics: {} })
  await storage.close()
  await running
  expect(
    orders()
      .map(({ mode, model }) => `${mode} ${model}`)
      .sort(),
  ).toEqual([`train ${name}`, `val ${name}@0`])
})

test('with --ahead 0 the next groups wait for an update that uses the last ones, or passes them over', async () => {
  const { run, orders, name } = setUp([{ reward: 1 }])
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const insert = (table: string, values: object) => storage.client.insert({ table, values: [values], format: 'JSONEachRow' })
  const running = run([
    ...['--policy', name, '--ahead', '0', '--steps', '3'],
    ...['--group-size', '1', '--tasks-per-step', '1', '--workers', '1'],
  ])
  const begun = async (count: number) => {
    while (orders().length < count) await new Promise((resolve) => setTimeout(resolve, 20))
    await new Promise((resolve) => setTimeout(resolve, 600))
    expect(orders()).toHaveLength(count)
  }
  await begun(1)
  // Taken for an update, which is recorded when its version is out.
  await insert('training_rows', { policy: name, rollout_id: orders()[0]!.rollout_id, group_id: `${name}/0`, update: 1 })
  await begun(1)
  await insert('training_steps', { policy: name, step: 1, finished_at: now() })
  await begun(2)
  for (const step of [2, 3, 4]) await insert('training_steps', { policy: name, step, finished_at: now() })
  await begun(3)
  expect((await running).code).toBe(0)
  await storage.close()
})

test('the trainer that a run waits for has ended where it was at work since the run began', async () => {
  const { run, name } = setUp([{ reward: 1 }])
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const { trainer } = rolloutRun(storage.client, { name, policy: name, patience: 1 })
  const held = (until: string, renewed_at: string) =>
    storage.client.command({
      query: `INSERT INTO leases (name, holder, until, renewed_at) SELECT '${trainerLease(name)}', 'x', ${until}, ${renewed_at}`,
    })
  await held('now64(3) - 60', 'now64(3) - 90')
  expect(await trainer()).toBe('not seen')
  await run(['--policy', name, '--steps', '1', '--group-size', '1', '--tasks-per-step', '1', '--workers', '1'])
  expect(await trainer()).toBe('not seen')
  await held('now64(3) + 30', 'now64(3)')
  expect(await trainer()).toBe('at work')
  await held('now64(3)', 'now64(3) + 0.001')
  expect(await trainer()).toBe('ended')
  await storage.close()
})

const now = () => (Date.now() / 1_000).toFixed(3)

test.each([
  [['run', '--tasks', 'none'], /name the worker behind "--"/],
  [['run', '--', 'true'], /needs --tasks/],
  [['run', '--tasks', 'missing.jsonl', '--', 'true'], /missing\.jsonl: ENOENT/],
  [['run', '--tasks', fixture('scripted.mjs'), '--', 'true'], /scripted\.mjs:1: /],
  [['run', '--tasks', 'x', '--ahead', '-1', '--', 'true'], /--ahead/],
  [['stop'], /must be "leyden rollouts run" \(got "stop"\)/],
])('%j is refused', async (args, message) => {
  const { code, stderr } = await runCommand(rollouts, args)
  expect(code).toBe(1)
  expect(stderr).toMatch(message)
})
