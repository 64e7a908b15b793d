import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, test } from 'vitest'

import type { Extension } from '../pipeline/component.ts'
import { readAddress } from '../storage/embedded/address.ts'
import { Unavailable, type Storage } from '../storage/storage.ts'
import { conforms, configure, problems, spanBatch, testContext } from '../test/conformance.ts'
import { stopEmbedded, testStorage } from '../test/storage.ts'
import clickhouse_storage from './clickhouse_storage.ts'

conforms(clickhouse_storage)

const apiOf = (extension: Extension) => extension.api as Storage

test('an embedded ClickHouse is there once the extension has started', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  const extension = configure(clickhouse_storage, { url: `embedded:${folder}` })
  await extension.start?.()
  await apiOf(extension).insertSpans([spanBatch()], [])
  const answer = await apiOf(extension).client.query({ query: 'SELECT count() AS n FROM spans', format: 'JSONEachRow' })
  expect(await answer.json()).toEqual([{ n: 2 }])
  await extension.shutdown?.()
  await stopEmbedded(folder)
  await rm(folder, { recursive: true })
})

test('a server that is away is waited for, and health says so', async () => {
  const nobody = createServer()
  await new Promise<void>((resolve) => nobody.listen(0, '127.0.0.1', resolve))
  const { port } = nobody.address() as AddressInfo
  await new Promise((resolve) => nobody.close(resolve))

  const context = testContext()
  const extension = configure(clickhouse_storage, { url: `http://127.0.0.1:${port}` }, context)
  await extension.start?.()
  expect(context.problem()).toMatch(/^ClickHouse cannot be reached: .*ECONNREFUSED/)
  await expect(apiOf(extension).insertSpans([spanBatch()], [])).rejects.toThrow(Unavailable)
  await extension.shutdown?.()
})

/** In /proc nobody can make a folder, not even below one that is there. */
test.each([`${import.meta.filename}/data`, '/proc/leyden', '/proc/leyden/data'])(
  'the folder %s, which cannot be made, is told with the option that names it',
  async (folder) => {
    const extension = configure(clickhouse_storage, { url: `embedded:${folder}` })
    await expect(extension.start?.()).rejects.toThrow(
      /^E[A-Z]+: .*, mkdir '.*'; set extensions::test::url to embedded:<folder>, a folder that can be written$/,
    )
  },
)

test('a user that the server does not know is told with the options that name it', async () => {
  const server = await testStorage()
  const { port } = (await readAddress(server.folder))!
  const extension = configure(clickhouse_storage, { url: `http://127.0.0.1:${port}`, password: 'wrong' })
  await expect(extension.start?.()).rejects.toThrow(
    /^Wrong user name or password; set extensions::test::username and password, or name both in its url$/,
  )
  await server.close()
})

test.each(['clickhouse://localhost:9000', 'localhost:8123', 'embedded:'])('the url %s is refused', (url) => {
  expect(problems(clickhouse_storage, { url })).toEqual([
    expect.stringContaining('must be embedded, embedded:<folder> or http(s)://[user:password@]host:port'),
  ])
})
