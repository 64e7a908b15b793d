import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { connect } from '../storage/connection.ts'
import { itemsOf } from '../storage/replay.ts'
import { runCommand } from '../test/command.ts'
import { startLeyden, type Leyden } from '../test/leyden.ts'
import { chat, endOf, reward, traces } from '../test/spans.ts'
import type { Diagnosis } from './diagnosis.ts'
import { doctor } from './doctor.ts'

let leyden: Leyden
let cwd: string
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'leyden-doctor-'))
  leyden = await startLeyden('processors: {policy_calls: {policies: [{name: p, models: [small]}]}, credit_assignment: {method: identical}}')
  for (const rollout of ['r1', 'r2']) {
    const spans = [
      { id: `${rollout}-root`, at: 0, for: 90 },
      chat(`${rollout}-a`, { parent: `${rollout}-root`, at: 10, model: 'small' }),
      chat(`${rollout}-b`, { parent: `${rollout}-root`, at: 20, model: 'large', answer: 'five' }),
      reward(`${rollout}-r`, 1, { parent: `${rollout}-root`, at: 30 }),
    ]
    await leyden.post('traces', traces(rollout, spans, { 'leyden.rollout.id': rollout }))
    await leyden.post('logs', endOf(rollout))
  }
  await leyden.rows(2, 'SELECT rollout_id FROM rollouts')
})
afterAll(async () => {
  await leyden.remove()
  await rm(cwd, { recursive: true })
})

const USUAL = `
receivers: {otlp: {}}
connectors: {rollouts: {}}
exporters: {debug: {}}
extensions: {clickhouse_storage: {}}
service:
  extensions: [clickhouse_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, air, credit_assignment], exporters: [debug]}
`
const config = (processors: string) => `${USUAL}processors: ${processors}\n`

async function run(processors: string, ...args: string[]) {
  await writeFile(join(cwd, 'new.yaml'), config(processors))
  return runCommand(doctor, ['--config', 'new.yaml', '--url', `embedded:${leyden.folder}`, ...args], { cwd })
}

const AS_IT_IS = '{policy_calls: {policies: [{name: p, models: [small]}]}, air: {}, credit_assignment: {method: identical}}'
const OTHER_MODEL = '{policy_calls: {policies: [{name: q, models: [large]}]}, air: {}, credit_assignment: {method: identical}}'
const DISCOUNTED = '{policy_calls: {policies: [{name: p}]}, air: {}, credit_assignment: {method: discounted, gamma: 0.5}}'

test('the configuration that made the transitions changes none', async () => {
  const { code, stdout, stderr } = await run(AS_IT_IS)
  expect(stdout).toBe('2 rollouts replayed: 0 transitions appear, 0 vanish, 0 change, 2 stay.\n')
  expect(stderr).toBe('')
  expect(code).toBe(0)
})

test('what appears says what it was, and what vanishes what it would be', async () => {
  const { stdout } = await run(OTHER_MODEL)
  expect(stdout).toContain('2 transitions appear, 2 vanish, 0 change, 0 stay.')
  expect(stdout).toMatch(/Appear\n {2}2 × were: no_?policy\w*\n {4}r\d span [0-9a-f]{16} {2}policy q, was: \w+/i)
  expect(stdout).toMatch(/Vanish\n {2}2 × now: /)
})

test('what changes is shown from and to; the newest rollouts come first', async () => {
  const { stdout } = await run(DISCOUNTED, '--last', '1')
  expect(stdout).toContain('1 rollouts replayed: 1 transitions appear, 0 vanish, 1 change, 0 stay.')
  expect(stdout).toMatch(
    /Change\n {2}1 × return\n {2}1 × credit_method\n {4}r2 span [0-9a-f]{16} {2}return 1 → 0\.5, credit_method "identical" → "discounted"\n/,
  )
})

test('what a rollout said outside of any trace is read as well', async () => {
  const storage = await connect({ url: `embedded:${leyden.folder}`, database: 'default', username: 'default', password: '' })
  const items = await itemsOf(storage.client, [{ rollout_id: 'r1', attempt_id: '' }])
  await storage.close()
  expect(
    items
      .get('r1\0')!
      .map(({ signal }) => signal)
      .toSorted(),
  ).toEqual(['log', 'span', 'span', 'span', 'span'])
})

test('as JSON, against another configuration', async () => {
  await writeFile(join(cwd, 'old.yaml'), config(OTHER_MODEL))
  const { stdout } = await run(AS_IT_IS, '--against', 'old.yaml', '--format', 'json')
  const { appear, vanish, same } = JSON.parse(stdout) as Diagnosis
  expect([appear.length, vanish.length, same]).toEqual([2, 2, 0])
})

test('mistakes are told before anything is read', async () => {
  expect((await runCommand(doctor, [], { cwd })).stderr).toBe('Error: name the configuration to try: leyden doctor --config new.yaml\n')
  expect((await run(AS_IT_IS, '--last', 'all')).stderr).toBe('Error: --last must be a number of rollouts (got "all")\n')
  const { code, stderr } = await run('{air: {mode: sometimes}}')
  expect(stderr).toContain('processors::air::mode: must be one of')
  expect(code).toBe(1)
})
