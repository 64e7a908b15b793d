import { afterAll, beforeAll, expect, test } from 'vitest'

import { testStorage, type TestStorage } from '../test/storage.ts'
import { policiesOf, type Policies, type PolicyVersion } from './policies.ts'

let storage: TestStorage
let policies: Policies
beforeAll(async () => {
  storage = await testStorage()
  policies = policiesOf(storage.client)
})
afterAll(() => storage.close())

const version = (policy: string, version: number, over: Partial<PolicyVersion> = {}) => ({
  policy,
  version,
  base: '/models/base',
  path: `/policies/${policy}/${version}`,
  parent: version > 0 ? version - 1 : null,
  status: 'live' as const,
  trained_on: version > 0 ? { groups: 12 } : {},
  metrics: { reward: 0.5 },
  ...over,
})

const statuses = async (policy: string) =>
  Object.fromEntries((await policies.versions(policy)).map(({ version, status }) => [version, status]))

test('a version that is published is read back as it was, and a policy without any has none', async () => {
  expect(await policies.versions('as_written')).toEqual([])
  expect(await policies.live('as_written')).toBeUndefined()
  await policies.publish(version('as_written', 0))
  expect(await policies.live('as_written')).toEqual({ ...version('as_written', 0), created_at: expect.any(Number) as number })
})

test('the version published last is live and the one before it is retired', async () => {
  for (const n of [0, 1, 2]) await policies.publish(version('improves', n))
  expect(await statuses('improves')).toEqual({ 0: 'retired', 1: 'retired', 2: 'live' })
})

test('a candidate leaves the live one alone until it is promoted, and an older one can be promoted again', async () => {
  await policies.publish(version('careful', 0))
  await policies.publish(version('careful', 1, { status: 'candidate' }))
  expect(await statuses('careful')).toEqual({ 0: 'live', 1: 'candidate' })
  await policies.setStatus('careful', 1, 'live')
  expect(await statuses('careful')).toEqual({ 0: 'retired', 1: 'live' })
  await policies.setStatus('careful', 0, 'live')
  expect(await statuses('careful')).toEqual({ 0: 'live', 1: 'retired' })
})

test('two processes that make a version live at the same moment leave one of them live', async () => {
  await policies.publish(version('raced', 0))
  await Promise.all([1, 2, 3].map((n) => policiesOf(storage.client).publish(version('raced', n))))
  expect(Object.values(await statuses('raced')).filter((status) => status === 'live')).toHaveLength(1)
})

test('a pruned version cannot become live, and a live one cannot be pruned', async () => {
  for (const n of [0, 1]) await policies.publish(version('pruned', n))
  await policies.pruned('pruned', 0)
  await expect(policies.setStatus('pruned', 0, 'live')).rejects.toThrow('version 0 of policy pruned is pruned: its files are gone')
  await expect(policies.pruned('pruned', 1)).rejects.toThrow('version 1 of policy pruned is live: it cannot be pruned')
  await expect(policies.setStatus('pruned', 7, 'live')).rejects.toThrow('policy pruned has no version 7: it has 0, 1')
})

test('a policy is registered once, and again where its base moved', async () => {
  const registered = async () => (await policies.list()).filter(({ policy }) => policy === 'moved')
  await policies.register({ policy: 'moved', base: '/a', path: '/policies/moved' })
  const [first] = await registered()
  await policies.register({ policy: 'moved', base: '/a', path: '/policies/moved' })
  expect(await registered()).toEqual([first])
  await policies.register({ policy: 'moved', base: '/b', path: '/policies/moved' })
  expect(await registered()).toEqual([{ ...first, base: '/b' }])
})

test('a figure that is no number is left out', async () => {
  await policies.publish(version('odd', 0, { metrics: { reward: NaN, loss: Infinity, kl: 0.1 } }))
  expect(await policies.live('odd')).toMatchObject({ metrics: { kl: 0.1 } })
})
