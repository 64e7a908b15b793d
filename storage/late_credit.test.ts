import { afterEach, beforeEach, expect, test } from 'vitest'

import type { CreditSpec, Reward } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeEach(async () => {
  storage = await testStorage()
})
afterEach(() => storage.close())

const credit: CreditSpec = {
  ...{ method: 'identical', gamma: 1, lambda: 1, baseline: 'auto', normalize: 'none', min_group: 2 },
  ...{ reward_range: [0, 1], include_steps: false },
}

/** Two rollouts of one group, stored in two months. */
async function pair(): Promise<void> {
  const months = [Date.UTC(2026, 4, 31, 23, 59), Date.UTC(2026, 5, 1)]
  for (const [i, covered_until] of months.entries()) {
    const group = { group_id: 'pair', group_size: 2, task_id: '', attempt_id: '' }
    const one = rollout({ ...group, rollout_id: `r${i}`, calls: 3, reward: i, credit, covered_until, spans: 4 })
    const two = { ...one, transitions: one.transitions.map((t) => ({ ...t, return: i })) }
    await storage.writeRevision([two])
    await storage.commit([two])
  }
  await expect.poll(() => storage.rows('SELECT 1 FROM credits'), { timeout: 5_000 }).toHaveLength(1)
}

function score(rollout_id: string, value: number, over: Partial<Reward> = {}) {
  const given_at = Date.UTC(2026, 6, 1) + value
  const time = BigInt(given_at) * 1_000_000n
  const place = { span_id: '', parent_span_id: '', trace_id: 'late', start_time: time, end_time: time, dialect: '', scope: '', node: -1 }
  const reward: Reward = {
    ...{ ...place, judged: false, kind: 'reward', reward_id: `${rollout_id} ${value}`, given_at, source: 'human' },
    ...{ dimensions: [{ name: 'correct', value }], target: { rollout_id }, ...over },
  }
  return { trace_id: 'late', rollout_id, attempt_id: '', rewards: [reward], items: 1, received_at: given_at }
}

const advantages = () =>
  storage.rows('SELECT rollout_id, revision, return, advantage, credit_version FROM transitions ORDER BY rollout_id, step')
const six = (first: object, second: object) => [first, first, first, second, second, second]

test('a reader beside it takes a group whole or not at all, across months too', async () => {
  await pair()
  expect(await storage.rows('SELECT DISTINCT toYYYYMM(inserted_at) FROM transitions')).toHaveLength(2)
  const seen: { version: number; advantages: number[] }[] = []
  let refused = 0
  let done = false
  const reading = (async () => {
    while (!done) {
      const [row] = await storage.rows<{ named: number; versions: number[]; advantages: number[] }>(`
        SELECT (SELECT max(credit_version) FROM credits) AS named, groupUniqArray(credit_version) AS versions, groupArray(advantage) AS advantages
        FROM (SELECT credit_version, advantage FROM transitions WHERE group_id = 'pair' ORDER BY rollout_id, step)`)
      const { named, versions, advantages } = row!
      if (versions.length === 1 && versions[0] === named) seen.push({ version: named, advantages })
      else refused++
    }
  })()
  for (let version = 2; version <= 12; version++) expect(await storage.creditLate([score('r1', version)])).toEqual([])
  done = true
  await reading
  // In its k-th version r1 is worth k, and r0 nothing.
  for (const { version, advantages } of seen) expect(advantages).toEqual(six({}, {}).map((_, i) => (version / 2) * (i < 3 ? -1 : 1)))
  expect(seen.length + refused).toBeGreaterThan(10)
  expect(await storage.rows('SELECT max(credit_version) AS last FROM credits')).toEqual([{ last: 12 }])
})

test('what is said again counts once: in the ledger, in the credit, and among what is covered', async () => {
  await pair()
  for (let times = 0; times < 2; times++) await storage.creditLate([score('r1', 3)])
  expect(await storage.rows('SELECT reward_id, value FROM rewards')).toEqual([{ reward_id: 'r1 3', value: 3 }])
  expect(await storage.rows(`SELECT outcome, spans FROM rollouts FINAL WHERE rollout_id = 'r1'`)).toEqual([{ outcome: 3, spans: 5 }])
})

test('what is about a span that the outline does not know is left to a new revision', async () => {
  await pair()
  const about = score('r1', 3, { target: { span_id: 'ffffffffffffffff' } })
  expect(await storage.creditLate([about, score('r0', 1)])).toEqual([about])
  expect(await storage.creditLate([score('unknown', 1)])).toHaveLength(1)
})

test('a server without lightweight UPDATE gets a new revision of every rollout of the group', async () => {
  await storage.client.command({ query: 'ALTER TABLE transition_rows MODIFY SETTING enable_block_number_column = 0' })
  await pair()
  await storage.creditLate([score('r1', 3)])
  expect(await advantages()).toEqual(
    six(
      { rollout_id: 'r0', revision: 3, return: 0, advantage: -1.5, credit_version: 2 },
      { rollout_id: 'r1', revision: 3, return: 3, advantage: 1.5, credit_version: 2 },
    ),
  )
  expect(await storage.rows('SELECT rollout_id, outcome FROM rollouts FINAL ORDER BY rollout_id')).toEqual([
    { rollout_id: 'r0', outcome: 0 },
    { rollout_id: 'r1', outcome: 3 },
  ])
  expect(await storage.rows(`SELECT name FROM system.tables WHERE name LIKE 'credit_staging%'`)).toEqual([])
})
