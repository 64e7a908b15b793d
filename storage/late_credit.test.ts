import { afterAll, beforeAll, expect, test } from 'vitest'

import type { CreditSpec, Reward } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const credit: CreditSpec = {
  ...{ method: 'identical', gamma: 1, lambda: 1, baseline: 'auto', normalize: 'none', min_group: 2 },
  ...{ reward_range: [0, 1], include_steps: false },
}

/** Two rollouts of one group, name-0 and name-1 unless they are called otherwise, stored in two months. */
async function pair(name: string, called = name): Promise<void> {
  const months = [Date.UTC(2026, 4, 31, 23, 59), Date.UTC(2026, 5, 1)]
  for (const [i, covered_until] of months.entries()) {
    const group = { group_id: name, group_size: 2, task_id: '', attempt_id: '' }
    const one = rollout({ ...group, rollout_id: `${called}-${i}`, calls: 3, reward: i, credit, covered_until, spans: 4 })
    const two = { ...one, transitions: one.transitions.map((t) => ({ ...t, return: i })) }
    await storage.writeRevision([two])
    await storage.commit([two])
  }
  await expect.poll(() => storage.rows(`SELECT 1 FROM credits WHERE group_id = '${name}'`), { timeout: 5_000 }).toHaveLength(1)
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

const six = <T>(first: T, second: T) => [first, first, first, second, second, second]

const LAST = 5

test('a reader beside it takes a group whole or not at all, across months too', async () => {
  await pair('read')
  expect(await storage.rows('SELECT DISTINCT toYYYYMM(inserted_at) FROM transitions')).toHaveLength(2)
  const seen: { version: number; advantages: number[] }[] = []
  let refused = 0
  let done = false
  const reading = (async () => {
    while (!done) {
      const [row] = await storage.rows<{ named: number; versions: number[]; advantages: number[] }>(`
        SELECT (SELECT max(credit_version) FROM credits WHERE group_id = 'read') AS named, groupUniqArray(credit_version) AS versions, groupArray(advantage) AS advantages
        FROM (SELECT credit_version, advantage FROM transitions WHERE group_id = 'read' ORDER BY rollout_id, step)`)
      const { named, versions, advantages } = row!
      if (versions.length === 1 && versions[0] === named) seen.push({ version: named, advantages })
      else refused++
    }
  })()
  for (let version = 2; version <= LAST; version++) expect(await storage.creditLate([score('read-1', version)])).toEqual([])
  done = true
  await reading
  // In its k-th version the second is worth k, and the first nothing.
  for (const { version, advantages } of seen) expect(advantages).toEqual(six({}, {}).map((_, i) => (version / 2) * (i < 3 ? -1 : 1)))
  expect(seen.length + refused).toBeGreaterThan(LAST)
  expect(await storage.rows(`SELECT max(credit_version) AS last FROM credits WHERE group_id = 'read'`)).toEqual([{ last: LAST }])
})

test('what is said again counts once: in the ledger, in the credit, and among what is covered', async () => {
  await pair('said')
  for (let times = 0; times < 2; times++) await storage.creditLate([score('said-1', 3)])
  expect(await storage.rows(`SELECT reward_id, value FROM rewards WHERE reward_id = 'said-1 3'`)).toEqual([
    { reward_id: 'said-1 3', value: 3 },
  ])
  expect(await storage.rows(`SELECT outcome, spans FROM rollouts FINAL WHERE rollout_id = 'said-1'`)).toEqual([{ outcome: 3, spans: 5 }])
})

test('what is about a span that the outline does not know is left to a new revision', async () => {
  await pair('span')
  const about = score('span-1', 3, { target: { span_id: 'ffffffffffffffff' } })
  expect(await storage.creditLate([about, score('span-0', 1)])).toEqual([about])
  expect(await storage.creditLate([score('unknown', 1)])).toHaveLength(1)
})

test('hundreds of scores at once find their rollouts, whatever these are called', async () => {
  const odd = "it's \\ \n ö"
  await pair('odd', odd)
  const unknown = Array.from({ length: 300 }, (_, i) => score(`nobody's-${i}`, 1))
  expect(await storage.creditLate([...unknown, score(`${odd}-1`, 3)])).toEqual(unknown)
  expect(await storage.rows(`SELECT return, advantage FROM transitions WHERE group_id = 'odd' ORDER BY rollout_id, step`)).toEqual(
    six({ return: 0, advantage: -1.5 }, { return: 3, advantage: 1.5 }),
  )
})

test('more groups than are read together are all credited, each with its own', async () => {
  const all = Array.from({ length: 650 }, (_, i) => i)
  const rollouts = all.map((i) => {
    const group = { group_id: `portion-${i}`, group_size: 1, task_id: '', attempt_id: '' }
    return rollout({ ...group, rollout_id: `portion-${i}`, calls: 1, reward: 0, credit, covered_until: 1 })
  })
  await storage.writeRevision(rollouts)
  await storage.commit(rollouts)
  const credited = (version: number) =>
    storage.rows<{ name: string; value: number }>(`
      SELECT rollout_id AS name, return AS value FROM transitions
      WHERE startsWith(group_id, 'portion-') AND credit_version = ${version}
        AND group_id IN (SELECT group_id FROM credits WHERE credit_version = ${version})`)
  await expect.poll(async () => (await credited(1)).length, { timeout: 5_000 }).toBe(all.length)
  const late = all.map((i) => ({ ...score(`portion-${i}`, i), group_id: `portion-${i}` }))
  expect(await storage.creditLate(late)).toEqual([])
  const found = new Map((await credited(2)).map(({ name, value }) => [name, value]))
  expect(found).toEqual(new Map(all.map((i) => [`portion-${i}`, i])))
})

test('a rollout of more steps than are staged together is credited to its last', async () => {
  const calls = 70
  const one = rollout({ rollout_id: 'long', task_id: '', attempt_id: '', group_id: '', calls, reward: 0, credit, covered_until: 1 })
  await storage.writeRevision([one])
  await storage.commit([one])
  await storage.creditLate([score('long', 2)])
  expect(await storage.rows(`SELECT return, advantage FROM transitions WHERE rollout_id = 'long' ORDER BY step`)).toEqual(
    Array.from({ length: calls }, () => ({ return: 2, advantage: 0 })),
  )
})

test('what a kill left between the rows of rollouts and of credits is credited again, and no reader takes the group before', async () => {
  await pair('killed')
  const taken = `
    SELECT groupArray(advantage) AS advantages, any(credit_version) AS version
    FROM (SELECT * FROM transitions WHERE group_id = 'killed' ORDER BY rollout_id, step)
    GROUP BY group_id HAVING uniqExact(credit_version) = 1 AND version = (SELECT max(credit_version) FROM credits WHERE group_id = 'killed')`
  const outcome = `SELECT outcome FROM rollouts FINAL WHERE rollout_id = 'killed-1'`

  // The row of rollouts is as it was: nothing covers the score, so that a restart finds it again.
  await storage.client.command({
    query: `CREATE TABLE before ENGINE = Memory AS SELECT * FROM rollouts FINAL WHERE rollout_id = 'killed-1'`,
  })
  await storage.creditLate([score('killed-1', 3)])
  await storage.client.command({ query: 'INSERT INTO rollouts SELECT * FROM before' })
  expect(await storage.rows(outcome)).toEqual([{ outcome: 1 }])
  await storage.creditLate([score('killed-1', 3)])
  expect(await storage.rows(taken)).toEqual([{ advantages: six(-1.5, 1.5), version: 3 }])
  expect(await storage.rows(outcome)).toEqual([{ outcome: 3 }])

  // The row of credits is missing.
  await storage.client.command({ query: `DELETE FROM credits WHERE group_id = 'killed' AND credit_version = 3` })
  expect(await storage.rows(taken)).toEqual([])
  await storage.uncovered()
  await expect.poll(() => storage.rows(taken), { timeout: 5_000 }).toEqual([{ advantages: six(-1.5, 1.5), version: 3 }])
})

test('a server without lightweight UPDATE gets a new revision of every rollout of the group', async () => {
  await storage.close()
  storage = await testStorage()
  // What such a server answers, one that has it answers for a table like this.
  await storage.client.command({ query: 'ALTER TABLE transition_rows MODIFY SETTING enable_block_number_column = 0' })
  await pair('old')
  await storage.creditLate([score('old-1', 3)])
  const columns = 'rollout_id, revision, return, advantage, credit_version'
  expect(await storage.rows(`SELECT ${columns} FROM transitions WHERE group_id = 'old' ORDER BY rollout_id, step`)).toEqual(
    six(
      { rollout_id: 'old-0', revision: 3, return: 0, advantage: -1.5, credit_version: 2 },
      { rollout_id: 'old-1', revision: 3, return: 3, advantage: 1.5, credit_version: 2 },
    ),
  )
  expect(await storage.rows(`SELECT rollout_id, outcome FROM rollouts FINAL WHERE group_id = 'old' ORDER BY rollout_id`)).toEqual([
    { rollout_id: 'old-0', outcome: 0 },
    { rollout_id: 'old-1', outcome: 3 },
  ])
  expect(await storage.rows(`SELECT name FROM system.tables WHERE name LIKE 'credit_staging%'`)).toEqual([])
})
