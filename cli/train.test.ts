import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { lockFolder } from '../pipeline/disk/folder_lock.ts'
import { policiesOf } from '../storage/policies.ts'
import { trainingOf } from '../storage/training.ts'
import { BASE } from '../test/calculator.ts'
import { CLI, spawnLeyden } from '../test/process.ts'
import { trainerCommand } from '../test/trainer_command.ts'
import { fillTable } from '../test/training_table.ts'
import { PAUSED } from '../trainer/process.ts'

let trainer: Awaited<ReturnType<typeof trainerCommand>>
let { storage, folder, configOf, digest, run, versionsOf, stepsOf } = {} as typeof trainer
beforeAll(async () => {
  trainer = await trainerCommand()
  ;({ storage, folder, configOf, digest, run, versionsOf, stepsOf } = trainer)
})
afterAll(() => trainer.close())

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
}, 60_000)

test('killed in the middle of an update and of a write, it ends with the same weights as well', async () => {
  const options = { steps: 4, publish_every: 2 }
  for (const policy of ['alive', 'killed']) await fillTable(storage, { policy, groups: 8 })
  await run('alive', options)

  const start = () => spawnLeyden(['train', ...configOf('killed', options)], { cwd: folder })
  const took = async (update: number) => (await trainingOf(storage.client, 'killed').taken(update)).length > 0
  const writes = (version: number) => () => existsSync(join(folder, 'killed', `${version}.unfinished`))
  for (const moment of [() => took(3), writes(4)]) {
    const trainer = start()
    while (!(await moment()) && trainer.child.exitCode === null) await sleep(1)
    await trainer.stop('SIGKILL')
  }
  const { child } = start()
  await once(child, 'exit')
  expect(child.exitCode).toBe(0)
  expect(digest('killed', 4)).toBe(digest('alive', 4))
  expect(await versionsOf('killed')).toEqual(['0 retired', '2 retired', '4 live'])
  expect((await stepsOf('killed')).map(({ step }) => step)).toEqual([1, 2, 3, 4])
}, 60_000)

test('a second trainer of the same policy is told of the first', async () => {
  await run('taken', { steps: 0 })
  const unlock = await lockFolder(join(folder, 'taken'), 0)
  const { code, stderr } = await run('taken', { steps: 1 })
  await unlock()
  expect(code).toBe(1)
  expect(stderr).toBe(`Error: policy taken is being trained by another process, which holds ${join(folder, 'taken')}\n`)
})

test('one on another machine is told of the first too, and its own lease is given back', async () => {
  const leases = () =>
    storage.rows("SELECT holder FROM leases WHERE name = 'trainer far' GROUP BY holder HAVING argMax(until, renewed_at) > now64(3)")
  await storage.client.command({
    query:
      "INSERT INTO leases VALUES ('trainer far', 'another', 'elsewhere', 7, now64(3) + INTERVAL 30 SECOND, now64(3) - INTERVAL 1 SECOND)",
  })
  const { code, stderr } = await run('far', { steps: 0 })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^Error: policy far is trained by process 7 on elsewhere since .*: only one may, so stop it first\n$/)
  await storage.client.command({ query: "INSERT INTO leases VALUES ('trainer far', 'another', 'elsewhere', 7, now64(3), now64(3))" })
  expect((await run('far', { steps: 0 })).code).toBe(0)
  expect(await leases()).toEqual([])
})

test('another base or folder under a known name is refused', async () => {
  await run('moved', { steps: 0 })
  const base = join(folder, 'other_base')
  await cp(BASE, base, { recursive: true })
  expect((await run('moved', { base, steps: 0 })).stderr).toContain(
    `policy moved was trained from ${join(process.cwd(), BASE)}, not from ${base}`,
  )
  const elsewhere = join(folder, 'elsewhere')
  expect((await run('moved', { policies_dir: elsewhere, steps: 0 })).stderr).toContain(
    `has its versions in ${join(folder, 'moved')}, not in`,
  )
})

test('groups without signal are passed over and counted, and rows that cannot be learned from are refused by name', async () => {
  await fillTable(storage, { policy: 'mixed', groups: 2, outcomes: [1, 1], version: 1 })
  await fillTable(storage, { policy: 'mixed', groups: 1, version: 2, params: { top_p: 0.5 } })
  await fillTable(storage, { policy: 'mixed', groups: 1, version: 3, shift: 1_000 })
  await fillTable(storage, { policy: 'mixed', groups: 2, version: 4 })
  const { code, stdout } = await run('mixed', { groups_per_step: 4, steps: 1, on_breach: 'continue' })
  expect(code).toBe(0)
  expect(stdout).toContain('4 transitions refused (other_tokenizer), such as step 0 of rollout mixed/3/0/0: it has token ids beyond')
  expect(stdout).toContain('4 transitions refused (top_p)')
  expect(stdout).toContain('step 1: answered by versions that were never published: 4')
  expect(await stepsOf('mixed')).toMatchObject([
    { groups: 4, transitions: 8, dropped_groups: 2, refused: { top_p: 4, other_tokenizer: 4 } },
  ])
})

test('a breach pauses the run before anything is published, says why, and is found again', async () => {
  await fillTable(storage, { policy: 'breached', groups: 2, version: 9 })
  for (let i = 0; i < 2; i++) {
    const { code, stderr } = await run('breached', { steps: 1 })
    expect(code).toBe(PAUSED)
    expect(stderr).toContain('breached: paused after step 0: answered by versions that were never published: 9')
  }
  expect(await versionsOf('breached')).toEqual(['0 live'])
})

test('a learning rate that explodes pauses the run, and the last good version stays', async () => {
  await fillTable(storage, { policy: 'exploded', groups: 4 })
  await run('exploded', { steps: 1 })
  const good = digest('exploded', 1)
  const { code, stderr } = await run('exploded', { steps: 2, learning_rate: 1e30, epochs: 2 })
  expect(code).toBe(PAUSED)
  expect(stderr).toMatch(/exploded: paused after step 1: the update failed: .*NaN/)
  expect(await versionsOf('exploded')).toEqual(['0 retired', '1 live'])
  expect(digest('exploded', 1)).toBe(good)
})

test('a version that cannot be written whole is not there at all, and the one before it is as it was', async () => {
  await fillTable(storage, { policy: 'full', groups: 4 })
  await run('full', { steps: 1 })
  const good = digest('full', 1)
  // No file may be larger than 100 KiB: what a full disk does, without one.
  const command = `ulimit -f 100; exec "${process.execPath}" "${CLI}" train --config '${configOf('full', { steps: 2 })[1]}'`
  const child = spawn('bash', ['-c', command], { stdio: ['ignore', 'ignore', 'pipe'] })
  const [stderr, [code]] = await Promise.all([readText(child.stderr), once(child, 'exit')])
  expect(code).toBe(1)
  expect(stderr).toMatch(/^Error: version 2 cannot be written to .*: EFBIG.*\. Versions before it are as they were$/m)
  expect(readdirSync(join(folder, 'full'))).toEqual(['1'])
  expect(digest('full', 1)).toBe(good)
  expect((await run('full', { steps: 2 })).code).toBe(0)
  expect(await versionsOf('full')).toEqual(['0 retired', '1 retired', '2 live'])
}, 60_000)

test('rolled back, it goes on from the version that was made live, under new numbers', async () => {
  await fillTable(storage, { policy: 'back', groups: 6 })
  await run('back', { steps: 2 })
  await policiesOf(storage.client).setStatus('back', 1, 'live')
  await run('back', { steps: 3 })
  expect(await versionsOf('back')).toEqual(['0 retired', '1 retired', '2 retired', '3 live'])
  expect(await policiesOf(storage.client).live('back')).toMatchObject({ parent: 1 })
})

test('promoted by hand, versions are candidates that each go on from the last', async () => {
  await fillTable(storage, { policy: 'manual', groups: 4 })
  await run('manual', { steps: 2, promote: 'manual' })
  expect(await versionsOf('manual')).toEqual(['0 live', '1 candidate', '2 candidate'])
  expect((await policiesOf(storage.client).versions('manual'))[2]).toMatchObject({ parent: 1 })
})

test('beside the newest versions only the live one and the best in evaluation are kept', async () => {
  await fillTable(storage, { policy: 'kept', groups: 12 })
  await run('kept', { steps: 3, keep: 2 })
  await fillTable(storage, { policy: 'kept', groups: 2, version: 2, mode: 'val', outcomes: [1] })
  await fillTable(storage, { policy: 'kept', groups: 2, version: 3, mode: 'val', outcomes: [0.5] })
  await run('kept', { steps: 6, keep: 2 })
  expect(readdirSync(join(folder, 'kept')).sort()).toEqual(['2', '5', '6'])
  expect((await policiesOf(storage.client).versions('kept')).filter(({ path }) => path === '').map(({ version }) => version)).toEqual([
    1, 3, 4,
  ])
})

test('it stops early where an evaluation is good enough', async () => {
  await fillTable(storage, { policy: 'good', groups: 2, mode: 'val', outcomes: [0.9] })
  const { code, stderr } = await run('good', { early_stop: { reward: 0.8 } })
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'good: done after step 0: version 0 reached 0.900 in evaluation\n' })
})

test('--dry-run shows rows decoded, with what each token is worth, and takes nothing', async () => {
  await fillTable(storage, { policy: 'dry', groups: 1 })
  const { code, stdout } = await run('dry', {}, '--dry-run')
  expect(code).toBe(0)
  expect(stdout).toContain('1 of 2 groups are ready; 0 more are without signal')
  expect(stdout).toContain('row 1 of 2: group dry/0/0, rollout dry/0/0/0, steps 0, 1, version 0, temperature 1\n')
  expect(stdout).toMatch(/\n {9} {2}<\|user\|>│\S+│\S+│<\|assistant\|>\n {4}0\.500 {2}\S+│\S+│<\|end\|>\n {9} {2}<\|tool\|>/)
  expect(await trainingOf(storage.client, 'dry').ready(0)).toHaveLength(1)
  expect(await versionsOf('dry')).toEqual([])
})

test('--plot draws what was trained, and says when that is nothing', async () => {
  const file = join(folder, 'plain.svg')
  expect(await run('plain', {}, '--plot', file)).toEqual({ code: 0, stdout: `${file}: 2 steps, 0 evaluations\n`, stderr: '' })
  expect(readFileSync(file, 'utf8').match(/class="step"/g)).toHaveLength(2)
  expect(await run('nothing', {}, '--plot', file)).toMatchObject({ code: 1, stderr: 'Error: nothing was trained of policy nothing yet\n' })
})

test('which trainer is meant must be clear', async () => {
  expect(await run('plain', {}, '--policy', 'other')).toMatchObject({
    code: 1,
    stderr: 'Error: no trainer of policy "other" is configured (known: plain)\n',
  })
  expect(await run('plain', {}, '--steps', '-1')).toMatchObject({ code: 1 })
})
