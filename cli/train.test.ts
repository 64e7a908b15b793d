import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { policiesOf } from '../storage/policies.ts'
import { trainingOf } from '../storage/training.ts'
import { BASE } from '../test/calculator.ts'
import { runCommand } from '../test/command.ts'
import { spawnLeyden } from '../test/process.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { fillTable } from '../test/training_table.ts'
import { train } from './train.ts'

let storage: TestStorage
let folder: string
beforeAll(async () => {
  storage = await testStorage({ settle_timeout: 300 })
  folder = await mkdtemp(join(tmpdir(), 'leyden-train-'))
})
afterAll(async () => {
  await storage.close()
  await rm(folder, { recursive: true, force: true })
})

/** `--config` of a trainer of this policy, which takes two groups a step from whatever version. */
function configOf(policy: string, options: object = {}): string[] {
  const trainer = {
    ...{ policy, base: join(process.cwd(), BASE), policies_dir: folder, groups_per_step: 2, max_staleness: 100 },
    ...{ learning_rate: 1e-3, kernels: 'decomp', ...options },
  }
  const config = {
    receivers: { otlp: { protocols: { http: {} } } },
    exporters: { debug: {} },
    extensions: { clickhouse_storage: { url: storage.url }, trainer },
    service: { extensions: ['clickhouse_storage'], pipelines: { traces: { receivers: ['otlp'], exporters: ['debug'] } } },
  }
  return ['--config', `yaml:${JSON.stringify(config)}`]
}

const run = (policy: string, options: object = {}, ...flags: string[]) => runCommand(train, [...configOf(policy, options), ...flags])
const versionsOf = async (policy: string) =>
  (await policiesOf(storage.client).versions(policy)).map(({ version, status }) => `${version} ${status}`)
const stepsOf = (policy: string) => trainingOf(storage.client, policy).steps()

/** Weights, moments and all that a version's folder holds. */
function digest(policy: string, version: number): string {
  const hash = createHash('sha256')
  const path = join(folder, policy, String(version))
  for (const file of readdirSync(path, { recursive: true, encoding: 'utf8' }).sort()) {
    if (file.endsWith('.safetensors')) hash.update(file).update(readFileSync(join(path, file)))
  }
  return hash.digest('hex')
}

test('a run takes each group once, publishes every step, and says a line for each', async () => {
  await fillTable(storage, { policy: 'plain', groups: 4 })
  const { code, stdout, stderr } = await run('plain', { steps: 2 })
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'plain: finished after step 2\n' })
  expect(stdout.split('\n').filter((line) => line.startsWith('step'))).toEqual([
    expect.stringMatching(/^step 1 {2}reward 0\.500 {2}success 0\.50 {2}KL .* entropy .* 2 groups .* tokens\/s .* version 1 live$/),
    expect.stringMatching(/^step 2 .* version 2 live$/),
  ])
  expect(await versionsOf('plain')).toEqual(['0 retired', '1 retired', '2 live'])
  expect(await stepsOf('plain')).toMatchObject([
    { step: 1, groups: 2, rollouts: 4, transitions: 8, rows: 4, trained_tokens: 20, reward: 0.5, learning_rate: 1e-3 },
    { step: 2, groups: 2 },
  ])
  expect(await policiesOf(storage.client).live('plain')).toMatchObject({
    ...{ version: 2, parent: 1, path: join(folder, 'plain', '2') },
    trained_on: { groups: 2, rollouts: 4, transitions: 8, tokens: 20 },
  })
  expect(existsSync(join(folder, 'plain', '2', 'tokenizer.json'))).toBe(true)
})

test('stopped and started again, it ends with the weights of a run that never stopped, to the last bit', async () => {
  const options = { steps: 4, epochs: 2, minibatches: 2, publish_every: 2 }
  for (const policy of ['whole', 'halves']) await fillTable(storage, { policy, groups: 8 })
  await run('whole', options)
  // The second half is begun anew from the state of step 2.
  await run('halves', { ...options, steps: 2 })
  await run('halves', options)
  expect(await versionsOf('halves')).toEqual(['0 retired', '2 retired', '4 live'])
  expect(digest('halves', 4)).toBe(digest('whole', 4))
})
