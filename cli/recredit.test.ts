import { rm } from 'node:fs/promises'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { openStorage, type OpenStorage } from '../storage/open.ts'
import { startLeyden, type Leyden } from '../test/leyden.ts'
import { stopEmbedded } from '../test/storage.ts'
import { chat, endOf, reward, tool, traces } from '../test/spans.ts'
import { main } from './leyden.ts'

let leyden: Leyden
let storage: OpenStorage

/** Two rollouts of one group: one call leads to a tool, another answers; the second fails on the way. */
beforeAll(async () => {
  // What ends a rollout comes in a second request. Were that later than root_grace, it would make a second revision, and another credit.
  leyden = await startLeyden('{processors: {credit_assignment: {gamma: 0.9}}, connectors: {rollouts: {root_grace: 1m}}}')
  for (const [name, value] of [
    ['r1', 1],
    ['r2', 0],
  ] as const) {
    const parent = `${name}-root`
    const spans = [
      { id: parent, name: 'agent', at: 0, for: 1_000 },
      chat(`${name}-a`, { parent, at: 10 }),
      tool(`${name}-t`, { parent, at: 20, ...(value ? {} : { status: 2 as const }) }),
      reward(`${name}-s`, 0.1, { parent, at: 30 }),
      chat(`${name}-b`, { parent, at: 40, answer: 'done' }),
      reward(`${name}-o`, value, { parent, at: 60 }),
    ]
    await leyden.post('traces', traces(name, spans, { 'leyden.rollout.id': name, 'leyden.group.id': 'g', 'leyden.group.size': '2' }))
    await leyden.post('logs', endOf(name))
  }
  await leyden.rows(1, 'SELECT 1 FROM credits')
})
afterAll(async () => {
  await storage.close()
  await stopEmbedded(leyden.folder)
  await rm(leyden.folder, { recursive: true })
})

async function recredit(...args: string[]): Promise<string> {
  let said = ''
  const keep = (text: string) => void (said += text)
  const env = { CLICKHOUSE_URL: `embedded:${leyden.folder}` }
  await main(['recredit', ...args], { stdout: keep, stderr: keep, env, cwd: leyden.folder })
  return said
}

async function query<T = Record<string, unknown>>(sql: string): Promise<T[]> {
  return (await storage.client.query({ query: sql, format: 'JSONEachRow' })).json<T>()
}

const credits = () =>
  query<Record<string, number>>(
    `SELECT rollout_id, step, reward_outcome, reward_intermediate, reward_parts, return, advantage, credit_method FROM transitions ORDER BY rollout_id, step`,
  )
const versions = async () => (await query<{ v: number }>('SELECT DISTINCT credit_version AS v FROM transitions')).map(({ v }) => v)

test('beside a pipeline that credits it is refused, and says who does', async () => {
  expect(await recredit()).toMatch(
    new RegExp(`^Error: credit is written by process ${process.pid} on .+ since .+: only one may, so stop it first\\n`),
  )
  await leyden.stop()
  storage = await openStorage({ url: `embedded:${leyden.folder}` })
})

test('from the outline it finds the same credit to the last bit, as the next version', async () => {
  const before = await credits()
  expect(before.every((row) => row.credit_method === ('gae_turn' as never) && row.advantage !== 0)).toBe(true)
  expect(await recredit()).toBe('credited 2 rollouts in 1 groups\n')
  expect(await credits()).toEqual(before)
  expect(await versions()).toEqual([2])
})

test('another method takes the place of the first, and is kept', async () => {
  expect(await recredit('--method', 'last', '--since', '2000-01-01')).toBe('credited 2 rollouts in 1 groups\n')
  expect((await credits()).map((row) => [row.return, row.advantage])).toEqual([
    [0, -0.25],
    [1, 0.75],
    [0, -0.25],
    [0, -0.25],
  ])
  expect(await query(`SELECT DISTINCT JSONExtractString(credit, 'method') AS method FROM rollouts FINAL`)).toEqual([{ method: 'last' }])
  expect(await versions()).toEqual([3])
})

test('what ended before is left alone', async () => {
  expect(await recredit('--since', '0m')).toBe('credited 0 rollouts in 0 groups\n')
})

test('a reader beside it never sees half a group', async () => {
  const whole = `
    SELECT uniqExact(credit_version) AS versions, round(sum(advantage), 9) AS sum FROM (SELECT * FROM transitions)
    WHERE group_id = 'g' AND credit_version = (SELECT max(credit_version) FROM credits)`
  let done = false
  const seen = new Set<string>()
  const reading = (async () => {
    while (!done) for (const row of await query(whole)) seen.add(JSON.stringify(row))
  })()
  for (const method of ['identical', 'last', 'identical']) await recredit('--method', method)
  done = true
  await reading
  for (const row of seen)
    expect(JSON.parse(row)).toMatchObject({ sum: expect.toSatisfy((sum: number | null) => sum === null || Math.abs(sum) < 1e-9) })
})

test.each([
  [['--method', 'best'], '--method must be one of'],
  [['--since', 'yesterday'], '--since must be a date'],
])('%j is refused', async (args, message) => {
  expect(await recredit(...args)).toContain(message)
})
