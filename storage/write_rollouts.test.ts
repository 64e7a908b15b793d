import { afterAll, beforeAll, expect, test } from 'vitest'

import type { Rollout } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { Unavailable, type RolloutKey } from './storage.ts'

let storage: TestStorage
const counts: Record<string, number> = {}
beforeAll(async () => {
  storage = await testStorage({ count: (name, n) => void (counts[name] = (counts[name] ?? 0) + n) })
})
afterAll(() => storage.close())

/** Runs with a constraint that the table's owner added, say. */
async function constrained(table: string, check: string, run: () => Promise<void>): Promise<void> {
  await storage.client.command({ query: `ALTER TABLE ${table} ADD CONSTRAINT no_poison CHECK ${check}` })
  try {
    await run()
  } finally {
    await storage.client.command({ query: `ALTER TABLE ${table} DROP CONSTRAINT no_poison` })
  }
}

/** Each call extends the one before. */
function chain(rollout_id: string, calls: number, poisoned: readonly number[] = []): Rollout {
  const one = rollout({ rollout_id, attempt_id: '', group_id: '', calls, covered_until: Date.now() })
  const transitions = one.transitions.map((t, i) => ({
    ...t,
    ...{ parent_step: i - 1, model: poisoned.includes(i) ? 'poison' : 'good' },
    call: {
      ...t.call,
      prompt: one.calls.slice(0, i + 1).flatMap(({ prompt, completion }, n) => (n < i ? [...prompt, completion!] : prompt)),
    },
  }))
  return { ...one, transitions }
}

async function commit(...rollouts: Rollout[]): Promise<readonly RolloutKey[]> {
  await storage.writeRevision(rollouts)
  return storage.commit(rollouts)
}

const transitionsOf = (like: string) =>
  storage.rows(`SELECT rollout_id, step, parent_step, span_id FROM transitions WHERE rollout_id LIKE '${like}' ORDER BY rollout_id, step`)
const rejectsOf = (like: string) =>
  storage.rows(
    `SELECT rollout_id, span_id, policy, reason, detail FROM rejects WHERE rollout_id LIKE '${like}' ORDER BY rollout_id, span_id`,
  )

test('a call whose row ClickHouse refuses for good becomes a reject with its reason, and all others become transitions', async () => {
  const rollouts = [chain('a1', 3), chain('a2', 4, [1]), chain('a3', 2), chain('a4', 1, [0])]
  await constrained('transition_rows', "model != 'poison'", async () => expect(await commit(...rollouts)).toEqual([]))
  const span = (of: number, step: number) => rollouts[of]!.transitions[step]!.span_id
  const row = (of: number, step: number, parent_step: number, was: number) => ({
    rollout_id: `a${of + 1}`,
    step,
    parent_step,
    span_id: span(of, was),
  })
  expect(await transitionsOf('a%')).toEqual([
    ...[row(0, 0, -1, 0), row(0, 1, 0, 1), row(0, 2, 1, 2)],
    // The third call's prompt extended the one that is gone: it begins anew.
    ...[row(1, 0, -1, 0), row(1, 1, -1, 2), row(1, 2, 1, 3)],
    ...[row(2, 0, -1, 0), row(2, 1, 0, 1)],
  ])
  const reject = {
    policy: 'default',
    reason: 'refused_by_clickhouse',
    detail: expect.stringMatching(/Constraint `?no_poison`? .* is violated/),
  }
  expect(await rejectsOf('a%')).toEqual([
    { rollout_id: 'a2', span_id: span(1, 1), ...reject },
    { rollout_id: 'a4', span_id: span(3, 0), ...reject },
  ])
  const committed = "SELECT rollout_id, calls, transitions FROM rollouts FINAL WHERE rollout_id LIKE 'a%' ORDER BY rollout_id"
  expect(await storage.rows(committed)).toEqual([
    { rollout_id: 'a1', calls: 3, transitions: 3 },
    { rollout_id: 'a2', calls: 4, transitions: 3 },
    { rollout_id: 'a3', calls: 2, transitions: 2 },
    { rollout_id: 'a4', calls: 1, transitions: 0 },
  ])
  const whole = await storage.rows<{ prompt_messages: string }>(
    "SELECT prompt_messages FROM transitions_full(rollouts = ['a2']) ORDER BY step",
  )
  expect(whole.map(({ prompt_messages }) => JSON.parse(prompt_messages))).toEqual(
    [0, 2, 3].map((step) => JSON.parse(JSON.stringify(rollouts[1]!.transitions[step]!.call.prompt))),
  )
  expect(counts).toEqual({ leyden_refused_rows: 2 })
})

test('a rollout whose own row is refused does not become live, and those beside it do', async () => {
  const rollouts = [chain('b1', 1), chain('b2', 1), chain('b3', 1)]
  await constrained('rollouts', "rollout_id != 'b2'", async () => expect(await commit(...rollouts)).toMatchObject([{ rollout_id: 'b2' }]))
  expect(await transitionsOf('b%')).toMatchObject([{ rollout_id: 'b1' }, { rollout_id: 'b3' }])
  expect(await rejectsOf('b%')).toMatchObject([{ rollout_id: 'b2', reason: 'refused_by_clickhouse' }])
})

test('what is refused of the ledger is told, and its rollout is credited by the rest', async () => {
  const [call] = chain('c1', 1).calls
  const reward = (name: string) => ({
    ...{ ...call!, kind: 'reward' as const, reward_id: name, source: 'environment' as const, given_at: Date.now() },
    dimensions: [{ name, value: 1 }],
  })
  const one = { ...chain('c1', 1), rewards: [reward('fine'), reward('poison')] }
  await constrained('rewards', "name != 'poison'", async () => expect(await commit(one)).toEqual([]))
  expect(await storage.rows("SELECT name FROM rewards WHERE reward_id IN ('fine', 'poison')")).toEqual([{ name: 'fine' }])
  expect(await rejectsOf('c%')).toMatchObject([{ span_id: call!.span_id, policy: '', reason: 'refused_by_clickhouse' }])
  expect(await transitionsOf('c%')).toHaveLength(1)
})

test('a table that takes nothing at all is no matter of the rows: the rollouts are tried again, and then stored once', async () => {
  await storage.client.command({ query: 'RENAME TABLE transition_rows TO transitions_elsewhere' })
  await expect(commit(chain('d1', 2))).rejects.toThrow(Unavailable)
  await storage.client.command({ query: 'RENAME TABLE transitions_elsewhere TO transition_rows' })
  await commit(chain('d1', 2))
  expect(await transitionsOf('d%')).toHaveLength(2)
  expect(await rejectsOf('d%')).toEqual([])
})

test('a refused call is told also where its rollout has a reject of its own', async () => {
  const one = chain('e1', 1, [0])
  const own = { span_id: 'own', policy: 'default', reason: 'truncated', detail: '' } as const
  await constrained('transition_rows', "model != 'poison'", async () => expect(await commit({ ...one, rejects: [own] })).toEqual([]))
  const reasons = (await rejectsOf('e%')).map(({ reason }) => reason)
  expect(reasons.toSorted()).toEqual(['refused_by_clickhouse', 'truncated'])
})
