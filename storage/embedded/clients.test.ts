// The clients of other languages against the embedded server. clickhouse-connect is tried where python3 has it (pip install
// clickhouse-connect); clickhouse-go is built first, which takes a minute, so it runs only where it is asked for: LEYDEN_PEERS=go.

import { execFile, execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'

import { stopEmbedded } from '../../test/storage.ts'
import { joinEmbedded, type EmbeddedServer } from './join.ts'

const PEERS = fileURLToPath(new URL('../../test/peers/', import.meta.url))

let folder: string
let server: EmbeddedServer
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  server = await joinEmbedded(folder)
})
afterAll(async () => {
  server.close()
  await stopEmbedded(folder)
  await rm(folder, { recursive: true })
})

async function tried(command: string, args: string[], cwd = PEERS): Promise<string[]> {
  const { stdout } = await promisify(execFile)(command, args, { cwd }).catch((error: { stdout: string; stderr: string }) => error)
  return stdout.trim().split('\n')
}

function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

test('several clients for JavaScript at once, compressed both ways, each with a database of its own', async () => {
  const clientOf = (database: string) =>
    createClient({
      url: `http://127.0.0.1:${server.port}`,
      username: 'default',
      password: server.password,
      database,
      compression: { request: true, response: true },
      clickhouse_settings: { async_insert: 1 },
      session_id: 'shared',
      log: { level: ClickHouseLogLevel.OFF },
    })
  const first = clientOf('default')
  await Promise.all(['a', 'b', 'c'].map((name) => first.command({ query: `CREATE DATABASE js_${name}` })))
  const sums = await Promise.all(
    ['a', 'b', 'c'].map(async (name, n) => {
      const client = clientOf(`js_${name}`)
      await client.command({ query: 'CREATE TABLE numbers (n UInt32) ENGINE = MergeTree ORDER BY n' })
      for (let i = 0; i < 3; i++) await client.insert({ table: 'numbers', values: [{ n }, { n: 10 }], format: 'JSONEachRow' })
      const answer = await client.query({ query: 'SELECT sum(n) AS sum FROM numbers', format: 'JSONEachRow' })
      const [{ sum }] = (await answer.json<{ sum: string }>()) as [{ sum: string }]
      await client.close()
      return Number(sum)
    }),
  )
  await first.close()
  expect(sums).toEqual([30, 33, 36])
})

test.skipIf(!works('python3', '-c', 'import clickhouse_connect'))(
  "Python's clickhouse-connect is served (skipped where python3 cannot import clickhouse_connect)",
  async () => {
    const lines = await tried('python3', ['clickhouse_connect_peer.py', String(server.port), server.password])
    expect(lines.filter((line) => !line.startsWith('ok '))).toEqual([])
    expect(lines).toHaveLength(9)
  },
)

test.skipIf(process.env.LEYDEN_PEERS !== 'go').each(['none', 'lz4', 'gzip', 'deflate', 'br'])(
  'clickhouse-go is served over HTTP with compression %s (skipped without LEYDEN_PEERS=go, for it builds for minutes)',
  { timeout: 300_000 },
  async (compression) => {
    const args = ['run', '.', `127.0.0.1:${server.port}`, server.password, compression]
    const lines = await tried('go', args, `${PEERS}clickhouse_go`)
    expect(lines.filter((line) => !line.startsWith('ok '))).toEqual([])
    expect(lines).toHaveLength(9)
  },
)
