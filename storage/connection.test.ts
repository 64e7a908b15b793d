import { afterAll, beforeAll, expect, test } from 'vitest'

import { spanBatch } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { connect, urlProblem } from './connection.ts'
import { readAddress } from './embedded/address.ts'
import { openStorage } from './open.ts'

const NOBODY = { username: '', password: '', database: 'default' }

let server: TestStorage
beforeAll(async () => {
  server = await testStorage()
})
afterAll(() => server.close())

test('a url says who the user is and which the database, to whatever is read or written', async () => {
  const { port, password } = (await readAddress(server.folder))!
  const url = `http://default:${encodeURIComponent(password)}@127.0.0.1:${port}/by_url`
  const storage = await openStorage({ url, username: 'nobody', password: 'none' })
  await storage.insertSpans([spanBatch([{ id: 'a' }])], [])
  expect(await server.rows('SELECT count() AS n FROM by_url.spans')).toEqual([{ n: 1 }])
  await storage.close()
})

test('settings in a url are those of all that is read or written', async () => {
  const { port, password } = (await readAddress(server.folder))!
  const open = (setting: string) => connect({ ...NOBODY, url: `http://default:${password}@127.0.0.1:${port}/?${setting}` })
  const reader = await open('max_threads=3')
  const answer = await reader.client.query({ query: "SELECT getSetting('max_threads') AS n", format: 'JSONEachRow' })
  expect(await answer.json()).toEqual([{ n: 3 }])
  await reader.close()
  const writer = await open('readonly=1')
  await expect(writer.insert("INSERT INTO FUNCTION null('a UInt8') FORMAT RowBinary", [Buffer.from([1])], 't')).rejects.toThrow(/readonly/i)
  await writer.close()
})

test.each([
  ['http://localhost:8123', true],
  ['http://localhost:8123/', true],
  ['https://user:p%2Fw@example.com/agents', true],
  ['localhost:8123', false],
  ['http://', false],
  ['http://localhost:99999', false],
  ['http://localhost:8123/a/b', false],
  ['http://localhost:8123/a/?x=1', false],
  ['http://localhost:8123?max_threads=1', true],
  ['http://localhost:8123/agents?max_threads=1&log_queries=0', true],
  ['http://user:p/w@localhost', false],
  ['http://user:p%w@localhost', false],
])('%s is the url of a ClickHouse: %s', (url, is) => {
  expect(urlProblem(url).length === 0).toBe(is)
})

test('what is wrong with a url is said without its password', () => {
  expect(urlProblem('http://user:s3/cret@localhost:8123').join()).toMatch(/must be .* \(got "http:\/\/\*\*\*@localhost:8123"\)/)
})
