// A server of one's own that was killed (-9) between noting a block and naming its part: the embedded one behind a proxy, which takes away the
// answer to an insert, and where it says so the block's rows, but not the note.

import { createServer, request as send, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'

import type { Reward, Rollout } from '../data/rollout.ts'
import { logBatch, rollout, spanBatch } from '../test/conformance.ts'
import { endOf } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { readAddress } from './embedded/address.ts'
import { openStorage, type OpenStorage } from './open.ts'
import { Unavailable } from './storage.ts'
import { sureInserts } from './sure_insert.ts'

let server: TestStorage
let proxy: Server
let storage: OpenStorage
/** The table whose next inserts are not answered, how many, and whether their rows go. */
let trouble = { table: '', times: 0, losing: false }

beforeAll(async () => {
  server = await testStorage()
  const { port, password } = (await readAddress(server.folder))!
  proxy = createServer(async (asked, answer) => {
    const body = await buffer(asked)
    const { method, url: path, headers } = asked
    const passed = send({ host: '127.0.0.1', port, method, path, headers }, async (response) => {
      const bytes = await buffer(response)
      if (trouble.times === 0 || !new URLSearchParams(path).toString().includes(`INSERT+INTO+${trouble.table}+`)) {
        return answer.writeHead(response.statusCode!, response.headers).end(bytes)
      }
      trouble.times--
      if (trouble.losing) await emptied(trouble.table)
      answer.destroy()
    })
    passed.end(body)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const { port: proxyPort } = proxy.address() as AddressInfo
  storage = await openStorage({ url: `http://127.0.0.1:${proxyPort}`, username: 'default', password })
})
afterAll(async () => {
  await storage.close()
  await new Promise((resolve) => proxy.close(resolve))
  await server.close()
})
afterEach(() => void (trouble = { table: '', times: 0, losing: false }))

/** Of a block that is merely deleted ClickHouse still says that it has it. */
const emptied = (table: string) => server.client.command({ query: `ALTER TABLE ${table} DELETE WHERE true SETTINGS mutations_sync = 2` })

async function countOf(table: string): Promise<number> {
  const [row] = await server.rows<{ n: string }>(`SELECT count() AS n FROM ${table}`)
  return Number(row!.n)
}

let runs = 0
/** Of a block of its own each time. */
function nextRollout(): Rollout {
  const one = rollout({ rollout_id: `run-${++runs}`, attempt_id: '', calls: 2, covered_until: Date.now() })
  const reward: Reward = {
    ...{ ...one.calls[0]!, kind: 'reward', judged: false, reward_id: `it's ${runs}`, source: 'human', given_at: Date.now() },
    dimensions: [{ name: 'quality', value: 1 }],
  }
  const reject = { span_id: one.calls[1]!.span_id, policy: 'default', reason: 'truncated', detail: "it's too long" }
  return { ...one, rewards: [reward, { ...reward, reward_id: `other ${runs}` }], rejects: [reject] }
}

const commit = () => storage.commit([nextRollout()])
const addRewards = (one = nextRollout()) => storage.addRewards(one, one.rewards)
const threeSpans = () => storage.insertSpans([spanBatch(['a', 'b', 'c'].map((id) => ({ id: `${id}${++runs}` })))], [])
/** A log record outside of any trace, which its rollout says to be its own. */
const oneRecord = () => storage.insertSpans([logBatch(endOf(`run-${++runs}`))], [[`run-${runs}\0`]])

const WRITES: [what: string, table: string, rows: number, write: () => Promise<unknown>][] = [
  ['spans', 'spans', 3, threeSpans],
  ['log records', 'spans', 1, oneRecord],
  ['transitions', 'transition_rows', 2, () => storage.writeRevision([nextRollout()])],
  ['outlines', 'outlines', 1, commit],
  ['rejects', 'rejects', 1, commit],
  ['rewards', 'rewards', 2, commit],
  ['late rewards', 'rewards', 2, () => addRewards()],
]

test.each(WRITES)('%s that ClickHouse noted and did not store are stored, others are not stored twice', async (_, table, rows, write) => {
  for (const losing of [true, false]) {
    await emptied(table)
    trouble = { table, times: 1, losing }
    await write()
    expect([losing, trouble.times, await countOf(table)]).toEqual([losing, 0, rows])
  }
})

test('that a block of one table is stored says nothing of one of another that has its token', async () => {
  const sure = sureInserts(server.client)
  const sent: string[] = []
  const send = (table: string, isStored: string, fails = false) =>
    sure({
      ...{ table, token: 'same', isStored: () => isStored },
      insert: (token) => (
        sent.push(`${table} ${token === 'same' ? 'same' : 'another'}`),
        fails ? Promise.reject(new Error('cut off')) : Promise.resolve()
      ),
    })
  await expect(send('rejects', '0', true)).rejects.toThrow('cut off')
  await send('outlines', '1')
  await send('rejects', '0')
  expect(sent).toEqual(['rejects same', 'outlines same', 'rejects same', 'rejects another'])
})

test('a revision that is written again much later is looked for as well', async () => {
  await emptied('transition_rows')
  trouble = { table: 'transition_rows', times: 6, losing: true }
  const one = nextRollout()
  await expect(storage.writeRevision([one])).rejects.toThrow(Unavailable)
  await expect.poll(() => storage.writeRevision([one]).then(() => 'written', String), { timeout: 10_000 }).toBe('written')
  expect([trouble.times, await countOf('transition_rows')]).toEqual([0, 2])
}, 30_000)

test('spans that are stored apart from one that ClickHouse refuses, and what is said of that one, are there', async () => {
  await server.client.command({ query: "ALTER TABLE spans ADD CONSTRAINT no_bad CHECK name != 'bad'" })
  for (const table of ['spans', 'rejects']) {
    for (const losing of [true, false]) {
      await emptied('spans')
      await emptied('rejects')
      // The first insert is refused, which is an answer; an insert of nothing comes next, and nothing of it can be lost.
      trouble = { table, times: table === 'spans' ? 3 : 1, losing }
      const spans = ['good', 'bad', 'good', 'good'].map((name) => ({ id: `${name}${++runs}`, name }))
      await storage.insertSpans([spanBatch(spans)], [])
      expect([table, losing, await countOf('spans'), await countOf('rejects')]).toEqual([table, losing, 3, 1])
    }
  }
  await server.client.command({ query: 'ALTER TABLE spans DROP CONSTRAINT no_bad' })
})
