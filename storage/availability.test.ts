import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterEach, beforeEach, expect, test } from 'vitest'

import { spanBatch } from '../test/conformance.ts'
import { stopEmbedded } from '../test/storage.ts'
import { joinEmbedded, type EmbeddedServer } from './embedded/join.ts'
import { openStorage } from './open.ts'
import { Unavailable } from './storage.ts'

// An embedded server that is spoken to by its address is a server like any other: nobody revives it.
let folder: string
let server: EmbeddedServer
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  server = await joinEmbedded(folder)
})
afterEach(async () => {
  server.close()
  await stopEmbedded(folder)
  await rm(folder, { recursive: true })
})

const asServer = async () => {
  const { port, password } = JSON.parse(await readFile(join(folder, 'server.json'), 'utf8')) as { port: number; password: string }
  return { url: `http://127.0.0.1:${port}`, password }
}

async function stop(): Promise<void> {
  server.close()
  await stopEmbedded(folder, 'SIGKILL')
}

test('while ClickHouse is away work is refused, and when it is back all goes on alone', async () => {
  const problems: (string | null)[] = []
  const storage = await openStorage({ ...(await asServer()), report: (problem) => problems.push(problem) })
  await storage.insertSpans([spanBatch([{ id: 'before' }])], [])
  expect(problems).toEqual([])

  await stop()
  await expect(storage.insertSpans([spanBatch([{ id: 'while' }])], [])).rejects.toThrow(Unavailable)
  expect(problems.at(-1)).toMatch(/^ClickHouse .*ECONNREFUSED/)
  await expect(storage.uncovered()).rejects.toThrow(/^ClickHouse cannot be reached/)

  server = await joinEmbedded(folder)
  await expect.poll(() => problems.at(-1), { timeout: 5_000 }).toBe(null)
  await storage.insertSpans([spanBatch([{ id: 'after' }])], [])
  const answer = await storage.client.query({ query: 'SELECT name FROM spans ORDER BY received_at', format: 'JSONEachRow' })
  expect(await answer.json()).toEqual([{ name: 'before' }, { name: 'after' }])
  await storage.close()
})

test('a server that comes up later gets its schema then', async () => {
  const address = await asServer()
  await stop()
  const storage = await openStorage({ ...address, database: 'later' })
  await expect(storage.insertSpans([spanBatch()], [])).rejects.toThrow(Unavailable)
  server = await joinEmbedded(folder)
  await expect
    .poll(
      () =>
        storage.insertSpans([spanBatch()], []).then(
          () => 'stored',
          () => 'refused',
        ),
      { timeout: 8_000 },
    )
    .toBe('stored')
  await storage.close()
})

test('a server that does not know the password ends the start', async () => {
  const { url } = await asServer()
  await expect(openStorage({ url, password: 'guess' })).rejects.toThrow(/Wrong user name or password/)
})
