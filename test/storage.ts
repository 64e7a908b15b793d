// The real storage in a folder of its own, for tests.

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { openStorage, type OpenStorage, type StorageOptions } from '../storage/open.ts'

export interface TestStorage extends OpenStorage {
  readonly folder: string
  readonly url: string
  /** Rows of a query, as objects. */
  rows<T = Record<string, unknown>>(query: string): Promise<T[]>
}

/** An embedded ClickHouse in a temporary folder; `close` ends its server and removes the folder. */
export async function testStorage(options: Partial<StorageOptions> = {}): Promise<TestStorage> {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  const url = `embedded:${folder}`
  const storage = await openStorage({ url, ...options })
  return {
    ...storage,
    folder,
    url,
    rows: async <T>(query: string) => (await storage.client.query({ query, format: 'JSONEachRow' })).json<T>(),
    async close() {
      await storage.close()
      await stopEmbedded(folder)
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** Ends the server of a folder and waits until it is gone. */
export async function stopEmbedded(folder: string, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  const { pid } = JSON.parse(await readFile(join(folder, 'server.json'), 'utf8')) as { pid: number }
  process.kill(pid, signal)
  while (isAlive(pid)) await sleep(10)
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
