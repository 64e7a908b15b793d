// ClickHouse is there but cannot do its work: its disk is full, or cannot be written, or it is slow. test/durability.test.ts is about one that is away.

import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { freePort, startLeyden, type Leyden } from './leyden.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { traces } from './spans.ts'

let leyden: Leyden
let storage: OpenStorage
let health: number
let openai: number
beforeAll(async () => {
  health = await freePort()
  openai = await freePort()
  leyden = await startLeyden(`
receivers: {openai: {endpoint: "127.0.0.1:${openai}", models: {demo: {engine: scripted, answers: [{text: "Hello."}]}}}}
extensions: {health_check: {endpoint: "127.0.0.1:${health}"}}
service: {extensions: [clickhouse_storage, health_check], pipelines: {traces: {receivers: [otlp, openai]}}}
`)
  storage = await openStorage({ url: `embedded:${leyden.folder}` })
})
afterAll(async () => {
  await storage.close()
  await leyden.remove()
})

const alter = (how: string) => storage.client.command({ query: `ALTER TABLE spans ${how}` })
const post = (name: string) => leyden.post('traces', traces(name, [{ id: name }]))
const isHealthy = async () => (await fetch(`http://127.0.0.1:${health}/`)).ok

async function stored(): Promise<number> {
  const [row] = await leyden.query<{ n: number }>('SELECT toUInt32(count()) AS n FROM spans_unique')
  return row!.n
}

test('its disk is full: clients are told to come again, health says so, and all goes on alone when there is room', async () => {
  expect((await post('before')).status).toBe(200)
  await alter('MODIFY SETTING min_free_disk_bytes_to_perform_insert = 1000000000000000')
  const refused = await post('meanwhile')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
  expect(await refused.text()).toContain('enough free space')
  expect(await isHealthy()).toBe(false)
  expect(await stored()).toBe(1)

  await alter('RESET SETTING min_free_disk_bytes_to_perform_insert')
  expect((await post('meanwhile')).status).toBe(200)
  expect(await stored()).toBe(2)
  expect(await isHealthy()).toBe(true)
}, 20_000)

test('nothing can be written into its folder: the same', async () => {
  const before = await stored()
  // Modes of folders do not bind root, but a file is no folder to anybody.
  const inserts = join(leyden.folder, 'inserts')
  await rename(inserts, `${inserts}.away`)
  await writeFile(inserts, '')
  expect((await post('unwritten')).status).toBe(503)
  expect(await isHealthy()).toBe(false)
  expect(await stored()).toBe(before)

  await rm(inserts)
  await rename(`${inserts}.away`, inserts)
  expect((await post('unwritten')).status).toBe(200)
  expect(await stored()).toBe(before + 1)
  expect(await isHealthy()).toBe(true)
}, 20_000)

test('an endpoint goes on answering, and its calls are stored when they can be', async () => {
  const before = await stored()
  await alter('MODIFY SETTING min_free_disk_bytes_to_perform_insert = 1000000000000000')
  const body = JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'hi' }] })
  const ask = () => fetch(`http://127.0.0.1:${openai}/v1/chat/completions`, { method: 'POST', body })
  for (let i = 0; i < 3; i++) expect((await ask()).status).toBe(200)
  await expect.poll(isHealthy, { timeout: 10_000 }).toBe(false)
  expect((await ask()).status).toBe(200)
  expect(await stored()).toBe(before)

  await alter('RESET SETTING min_free_disk_bytes_to_perform_insert')
  await expect.poll(stored, { timeout: 10_000 }).toBe(before + 4)
}, 20_000)

test('it is slow: requests wait, and each that is acknowledged is stored', async () => {
  const before = await stored()
  await alter('ADD CONSTRAINT slow CHECK sleep(0.7) = 0')
  const requests = Array.from({ length: 100 }, async (_, i) => {
    await new Promise((resolve) => setTimeout(resolve, i * 10))
    return (await post(`slow ${i}`)).status
  })
  expect(await Promise.all(requests)).toEqual(Array(100).fill(200))
  expect(await stored()).toBe(before + 100)
  await alter('DROP CONSTRAINT slow')
}, 20_000)
