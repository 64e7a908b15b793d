import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

import { policiesOf, type Policies } from '../storage/policies.ts'
import { runCommand } from '../test/command.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { policies as command } from './policies.ts'

let storage: TestStorage
let policies: Policies
let tests = 0
let policy = ''

beforeAll(async () => {
  storage = await testStorage()
  policies = policiesOf(storage.client)
})

afterAll(() => storage.close())

/** Five versions beside the base; the last one is a candidate. */
beforeEach(async () => {
  policy = `p${tests++}`
  const folder = join(storage.folder, 'policies', policy)
  await policies.register({ policy, base: '/base', path: folder })
  for (let version = 0; version <= 5; version++) {
    const path = version === 0 ? '/base' : join(folder, String(version))
    if (version > 0) mkdirSync(path, { recursive: true })
    const status = version < 5 ? 'live' : 'candidate'
    const parent = version > 0 ? version - 1 : null
    await policies.publish({ policy, version, base: '/base', path, parent, status, trained_on: {}, metrics: { reward: version / 10 } })
  }
})

const run = (...args: string[]) => runCommand(command, [...args, '--url', storage.url])
const live = async () => (await policies.live(policy))?.version

test('list shows every version with its status, reward and files', async () => {
  const { code, stdout } = await run('list', policy)
  expect(code).toBe(0)
  const [head, ...rows] = stdout.trim().split('\n')
  expect(head).toMatch(/^policy +version +status +parent +reward +evaluation +made +files$/)
  expect(rows.map((row) => row.split(/ +/).slice(0, 6).join(' '))).toEqual([
    `${policy} 0 retired - 0.000 -`,
    ...[1, 2, 3].map((version) => `${policy} ${version} retired ${version - 1} 0.${version}00 -`),
    `${policy} 4 live 3 0.400 -`,
    `${policy} 5 candidate 4 0.500 -`,
  ])
})

test('promote makes the newest candidate live, or the version that is named', async () => {
  expect(await run('promote', policy)).toMatchObject({ code: 0, stdout: `${policy}@5 is live\n` })
  expect(await live()).toBe(5)
  await run('promote', `${policy}@2`)
  expect(await live()).toBe(2)
})

test('rollback goes to the version before, step by step, or to the one that is named', async () => {
  expect(await run('rollback', policy)).toMatchObject({ code: 0, stdout: `${policy}@3 is live, ${policy}@4 no longer\n` })
  await run('rollback', policy)
  expect(await live()).toBe(2)
  await run('rollback', `${policy}@0`)
  expect(await live()).toBe(0)
})

test('prune removes the files of versions that are neither among the newest nor live', async () => {
  await run('rollback', `${policy}@2`)
  expect(await run('prune', policy, '--keep', '1')).toMatchObject({ code: 0, stdout: 'removed 3 of 6 versions\n' })
  expect((await policies.versions(policy)).filter(({ path }) => path !== '').map(({ version }) => version)).toEqual([0, 2, 5])
  expect([1, 2, 5].map((version) => existsSync(join(storage.folder, 'policies', policy, String(version))))).toEqual([false, true, true])
  expect((await run('list', policy)).stdout).toMatch(/ 1 .* pruned\n/)
})

test.each([
  [['promote', 'nobody'], /there is no policy "nobody"/],
  [['promote'], /name the policy/],
  [['destroy', 'x'], /say what to do/],
  [['prune', 'x', '--keep', '0'], /--keep must be a whole number/],
])('%j is refused', async (args, message) => {
  const { code, stderr } = await run(...args)
  expect(code).toBe(1)
  expect(stderr).toMatch(message)
})

test('what is not there is not made live', async () => {
  expect((await run('promote', `${policy}@9`)).stderr).toMatch(/has no version 9/)
  expect((await run('rollback', `${policy}@4`)).stderr).toMatch(/is not older than the live one/)
  await run('rollback', `${policy}@0`)
  expect((await run('rollback', policy)).stderr).toMatch(/has no version before 0/)
  expect(await live()).toBe(0)
})
