import { afterAll, beforeAll, expect, test } from 'vitest'

import { groupAdvantages } from '../credit/group.ts'
import type { CreditSpec, Rollout } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { seeded } from '../test/random.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { openStorage } from './open.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage({ settle_timeout: 300 })
})
afterAll(() => storage.close())

const credit: CreditSpec = {
  method: 'identical',
  gamma: 1,
  lambda: 1,
  baseline: 'auto',
  normalize: 'none',
  min_group: 2,
  reward_range: [0, 1],
  include_steps: false,
}

/** A rollout of one call whose return is its outcome, as credit_assignment leaves it. */
function scored(
  rollout_id: string,
  outcome: number | null,
  over: Partial<Omit<Rollout, 'calls'>> = {},
  policy_version: number | null = null,
): Rollout {
  const alone = { attempt_id: '', task_id: '', group_size: 0, credit, covered_until: Date.now() }
  const one = rollout({ ...alone, rollout_id, calls: 1, reward: outcome, ...over })
  return { ...one, transitions: one.transitions.map((t) => ({ ...t, return: outcome, policy_version })) }
}

async function commit(...rollouts: Rollout[]): Promise<void> {
  await storage.writeRevision(rollouts)
  await storage.commit(rollouts)
}

const advantages = (where: string) =>
  storage.rows(`SELECT rollout_id, advantage, credit_version FROM transitions WHERE ${where} ORDER BY rollout_id, attempt_id`)
const credits = (group: string) =>
  storage.rows(
    `SELECT credit_version, method, members, baseline, effective_size FROM credits WHERE group_id = '${group}' ORDER BY credit_version`,
  )
/** Asks until there is an answer. */
const soon = (ask: () => Promise<unknown[]>, length: number) =>
  expect.poll(async () => (await ask()).length, { timeout: 5_000 }).toBe(length)

test('a group is credited as soon as the last of its rollouts is scored', async () => {
  const g = { group_id: 'full', group_size: 3 }
  await commit(scored('f1', 1, g))
  expect(await credits('full')).toEqual([])
  await commit(scored('f2', 0, g), scored('f3', 0.5, g))
  await soon(() => credits('full'), 1)
  expect(await credits('full')).toEqual([{ credit_version: 1, method: 'identical', members: 3, baseline: 'rollouts', effective_size: 3 }])
  expect(await advantages("group_id = 'full'")).toEqual([
    { rollout_id: 'f1', advantage: 0.5, credit_version: 1 },
    { rollout_id: 'f2', advantage: -0.5, credit_version: 1 },
    { rollout_id: 'f3', advantage: 0, credit_version: 1 },
  ])
})

test('a group that stays incomplete is credited after settle_timeout, and again when another rollout comes', async () => {
  const g = { group_id: 'late', group_size: 3 }
  await commit(scored('l1', 1, g), scored('l2', 0, g))
  await soon(() => credits('late'), 1)
  await commit(scored('l3', 0, g))
  await soon(() => credits('late'), 2)
  expect(await advantages("group_id = 'late'")).toEqual([
    { rollout_id: 'l1', advantage: expect.closeTo(2 / 3), credit_version: 2 },
    { rollout_id: 'l2', advantage: expect.closeTo(-1 / 3), credit_version: 2 },
    { rollout_id: 'l3', advantage: expect.closeTo(-1 / 3), credit_version: 2 },
  ])
})

test('where nobody minted a group, the rollouts of a task and a policy version are one', async () => {
  const t = { group_id: '', task_id: 'sum' }
  await commit(scored('t1', 1, t, 7), scored('t2', 0, t, 7), scored('t3', 0, t, 8))
  await soon(() => credits('sum@7'), 1)
  expect(await advantages("task_id = 'sum'")).toEqual([
    { rollout_id: 't1', advantage: 0.5, credit_version: 1 },
    { rollout_id: 't2', advantage: -0.5, credit_version: 1 },
    { rollout_id: 't3', advantage: null, credit_version: null },
  ])
})

test('what was cancelled or is for validation completes a group and has no part in it', async () => {
  const g = { group_id: 'parts', group_size: 4 }
  await commit(
    scored('p1', 1, g),
    scored('p2', 0, g),
    scored('p3', null, { ...g, status: 'cancelled' }),
    scored('p4', 1, { ...g, mode: 'val' }),
  )
  await soon(() => credits('parts'), 1)
  expect((await advantages("group_id = 'parts'")).map((row) => row.advantage)).toEqual([0.5, -0.5, null, null])
})

test('of a rollout that was tried twice, the last attempt that succeeded counts', async () => {
  const g = { group_id: 'tries', group_size: 2 }
  const start = 1_764_000_000_000_000_000n
  await commit(
    scored('a', 1, { ...g, attempt_id: '1', started_at: start }),
    scored('a', 0, { ...g, attempt_id: '2', started_at: start + 1n, status: 'failed' }),
    scored('b', 0, g),
  )
  await soon(() => credits('tries'), 1)
  expect((await advantages("group_id = 'tries'")).map((row) => row.advantage)).toEqual([0.5, null, -0.5])
})

test('a new revision of a rollout is credited with its group again', async () => {
  const g = { group_id: 'revised', group_size: 2 }
  await commit(scored('v1', 1, g), scored('v2', 0, g))
  await soon(() => credits('revised'), 1)
  await commit(scored('v2', 1, { ...g, revision: 2 }))
  await soon(() => credits('revised'), 2)
  expect((await advantages("group_id = 'revised'")).map((row) => row.advantage)).toEqual([0, 0])
})

test('what was not credited when a run ended is credited by the next one', async () => {
  const first = await openStorage({ url: storage.url, settle_timeout: 60_000 })
  const g = { group_id: 'resumed', group_size: 0 }
  const rollouts = [scored('s1', 1, g), scored('s2', 0, g)]
  await first.writeRevision(rollouts)
  await first.commit(rollouts)
  await first.close()
  expect(await credits('resumed')).toEqual([])
  await storage.uncovered()
  await soon(() => credits('resumed'), 1)
})

test('by task, each visit is credited as it comes, however many come and without waiting for the last', async () => {
  const byTask = { group_id: '', task_id: 'shop', credit: { ...credit, group_by: 'task' } }
  await commit(scored('d1', 1, byTask, 1))
  await commit(scored('d2', 0, byTask, 2))
  await soon(() => credits('task shop'), 1)
  await commit(scored('d3', 0, byTask, 3))
  await soon(() => credits('task shop'), 2)
  expect(await advantages("task_id = 'shop'")).toEqual([
    { rollout_id: 'd1', advantage: 1, credit_version: 2 },
    { rollout_id: 'd2', advantage: -0.5, credit_version: 2 },
    { rollout_id: 'd3', advantage: -0.5, credit_version: 2 },
  ])
})

test('advantages read back are those computed in memory, to the last bit', async () => {
  const random = seeded(7)
  const rollouts = Array.from({ length: 24 }, (_, i): Rollout => {
    const group = {
      group_id: `same-${i % 3}`,
      group_size: 8,
      attempt_id: '',
      task_id: '',
      credit: { ...credit, normalize: 'std' as const },
    }
    const one = rollout({ rollout_id: `same-${i}`, calls: 1 + random(4), reward: random(1_000) / 999, ...group })
    const agents = ['writer', 'checker']
    const transitions = one.transitions.map((t) => ({
      ...t,
      agent: agents[random(2)]!,
      return: random(8) === 0 ? null : random(1e6) / 7e5,
    }))
    return { ...one, transitions, started_at: BigInt(i) }
  })
  await commit(...rollouts)
  await soon(() => storage.rows("SELECT 1 FROM credits WHERE startsWith(group_id, 'same-')"), 3)
  for (const group of ['same-0', 'same-1', 'same-2']) {
    const members = rollouts.filter(({ group_id }) => group_id === group).map((member) => ({ ...member, excluded: false }))
    const stored = await storage.rows<{ advantages: (number | null)[] }>(
      `SELECT groupArray(tuple(advantage)) AS all, arrayMap(one -> one.1, all) AS advantages
       FROM (SELECT * FROM transitions WHERE group_id = '${group}' ORDER BY step) GROUP BY rollout_id ORDER BY toUInt32(substring(rollout_id, 6))`,
    )
    expect(stored.map(({ advantages }) => advantages)).toEqual(groupAdvantages(members, members[0]!.credit!).advantages)
  }
})

test('ten thousand rollouts of one group are compared with each other', async () => {
  const g = { group_id: 'huge', group_size: 10_000 }
  await commit(...Array.from({ length: 10_000 }, (_, i) => scored(`huge-${i}`, i % 2, g)))
  await soon(() => credits('huge'), 1)
  expect(await credits('huge')).toMatchObject([{ members: 10_000, effective_size: 10_000 }])
  const found = `SELECT advantage, count() AS n FROM transitions WHERE group_id = 'huge' GROUP BY advantage ORDER BY advantage`
  expect(await storage.rows(found)).toEqual([
    { advantage: -0.5, n: 5_000 },
    { advantage: 0.5, n: 5_000 },
  ])
})

test('no staging table is left behind', async () => {
  expect(await storage.rows("SELECT name FROM system.tables WHERE name LIKE 'credit_staging%'")).toEqual([])
})
