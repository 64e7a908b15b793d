import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { stopEmbedded, testStorage, type TestStorage } from '../../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
  await storage.client.command({
    query: 'CREATE TABLE notes (n UInt32) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100',
  })
})
afterAll(() => storage.close())

const insert = (token: string, n: number) =>
  storage.client.insert({
    table: 'notes',
    values: [{ n }],
    format: 'JSONEachRow',
    clickhouse_settings: { insert_deduplication_token: token },
  })
const stored = () => storage.rows('SELECT groupArray(n) AS notes FROM (SELECT n FROM notes ORDER BY n)')
const merged = () => storage.client.command({ query: 'OPTIMIZE TABLE notes FINAL' })

/** As it is where ClickHouse was killed after it had noted the block, and before the block's part had its name. */
async function killedBeforeItWasNamed(part: string): Promise<void> {
  const [table] = await storage.rows<{ path: string }>("SELECT data_paths[1] AS path FROM system.tables WHERE name = 'notes'")
  await stopEmbedded(storage.folder, 'SIGKILL')
  expect(await readdir(table!.path)).toContain(part)
  await rm(join(table!.path, part), { recursive: true })
  await expect.poll(() => stored().catch(() => null), { timeout: 20_000 }).not.toBe(null)
}

test('a block that ClickHouse noted and did not store before it was killed is stored when it comes again, others are not stored twice', async () => {
  await insert('one', 1)
  await insert('two', 2)
  await merged()
  await insert('three', 3)
  await insert('four', 4)
  await killedBeforeItWasNamed('all_4_4_0')
  expect(await stored()).toEqual([{ notes: [1, 2, 3] }])
  for (const [i, token] of ['one', 'two', 'three', 'four'].entries()) await insert(token, i + 1)
  expect(await stored()).toEqual([{ notes: [1, 2, 3, 4] }])
})
