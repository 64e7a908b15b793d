import { afterAll, beforeAll, expect, test } from 'vitest'

import { testStorage, type TestStorage } from '../test/storage.ts'
import { readNative } from './native_reader.ts'
import { openReader } from './row_reader.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const answer = async (query: string) => openReader((await storage.client.exec({ query: `${query} FORMAT Native` })).stream)
const read = async (query: string) => [...readNative(await answer(query))]

test('rows are those that JSON has, over blocks of any size', async () => {
  const query = `
    SELECT number AS n, toUInt32(n * 7) AS u, (n - 5)::Int32 AS i, n % 2 AS bit, n / 3 AS f, toFloat32(n / 4) AS short, repeat('ä', n % 200) AS text,
      toLowCardinality(toString(n % 300)) AS few, if(n % 3 = 0, NULL, n / 2) AS maybe, if(n % 3 = 0, NULL, toString(n)) AS said,
      range(n % 4)::Array(UInt32) AS ids, arrayMap(x -> x / 2, range(n % 5))::Array(Float32) AS logprobs,
      [if(n % 2 = 0, NULL, 0.5)] AS holes, arrayMap(x -> range(x), range(n % 4)) AS lists, [toString(n)] AS words
    FROM numbers(1000) ORDER BY n SETTINGS max_block_size = 300`
  const json = await storage.client.query({
    query,
    format: 'JSONEachRow',
    clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
  })
  expect(await read(query)).toEqual(await json.json())
})

test('numbers that JSON has no word for come as they are', async () => {
  expect(await read(`SELECT nan AS a, [inf, -inf, nan]::Array(Float32) AS b`)).toEqual([{ a: NaN, b: [Infinity, -Infinity, NaN] }])
})

test('an answer without rows has none', async () => {
  expect(await read(`SELECT number AS n, [n] AS ids, toLowCardinality('a') AS few FROM numbers(0)`)).toEqual([])
})

test('a type that is not read is named, and half an answer is no answer', async () => {
  await expect(read('SELECT now() AS a')).rejects.toThrow('a column of type "DateTime", which is not read')
  const { bytes } = await answer('SELECT range(100)::Array(UInt32) AS ids')
  expect(() => [...readNative({ bytes: bytes.subarray(0, 100), at: 0 })]).toThrow('ends within a column')
})
