import { afterAll, beforeAll, expect, test } from 'vitest'

import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

test('the schema is there once storage is open', async () => {
  const tables = await storage.rows('SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name')
  expect(tables).toEqual([])
})
