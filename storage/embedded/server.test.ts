import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'

import { ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { spanBatch } from '../../test/conformance.ts'
import { isAlive, stopEmbedded } from '../../test/storage.ts'
import { connect, type Connection } from '../connection.ts'
import { openStorage } from '../open.ts'
import type { Address } from './address.ts'
import { readBlocks, writeBlocks } from './blocks.ts'

let folder: string
let connection: Connection
const place = { database: 'default', username: 'default', password: '' }
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  connection = await connect({ url: `embedded:${folder}`, ...place })
})
afterAll(async () => {
  await connection.close()
  await stopEmbedded(folder)
  await rm(folder, { recursive: true })
})

const address = async (of = folder) => JSON.parse(await readFile(join(of, 'server.json'), 'utf8')) as Address

describe('a ClickHouse client', () => {
  const open = async () => {
    const { port, password } = await address()
    return createClient({ url: `http://127.0.0.1:${port}`, username: 'default', password, log: { level: ClickHouseLogLevel.OFF } })
  }

  test('pings, creates, inserts and selects as on a server', async () => {
    const client = await open()
    expect(await client.ping()).toEqual({ success: true })
    await client.command({ query: 'CREATE TABLE words (id UInt32, word String) ENGINE = MergeTree ORDER BY id' })
    await client.insert({
      table: 'words',
      values: [
        { id: 1, word: "it's" },
        { id: 2, word: 'tab\tand\nline' },
      ],
      format: 'JSONEachRow',
    })
    const answer = await client.query({ query: 'SELECT * FROM words ORDER BY id', format: 'JSONEachRow' })
    expect(await answer.json()).toEqual([
      { id: 1, word: "it's" },
      { id: 2, word: 'tab\tand\nline' },
    ])
    await client.close()
  })

  test.each([
    ['String', "a\ttab, a\nline, a \\ and a ' quote"],
    ['Array(String)', ["it's", 'b\\', 'c\n']],
    ['Map(String, UInt8)', { "a'b": 1 }],
    ['Nullable(Float64)', null],
  ])('binds a parameter of type %s', async (type, value) => {
    const client = await open()
    const answer = await client.query({ query: `SELECT {value:${type}} AS value`, query_params: { value }, format: 'JSONEachRow' })
    expect(await answer.json()).toEqual([{ value }])
    await client.close()
  })

  test('hears of a mistake with its code and type', async () => {
    const client = await open()
    await expect(client.query({ query: 'SELECT nonsense' })).rejects.toMatchObject({ code: '47', type: 'UNKNOWN_IDENTIFIER' })
    await client.close()
  })

  test('sets settings for one query and no other', async () => {
    const client = await open()
    const ask = async (clickhouse_settings = {}) =>
      (await client.query({ query: "SELECT getSetting('max_threads') AS n", clickhouse_settings, format: 'JSONEachRow' })).json()
    expect(await ask({ max_threads: 7 })).toEqual([{ n: 7 }])
    expect(await ask()).not.toEqual([{ n: 7 }])
    await client.close()
  })
})

describe('over plain HTTP', () => {
  const hex = (text: string) => Buffer.from(text).toString('hex').toUpperCase()

  async function post(query: string, { headers = {}, search = '', body = query as string | Uint8Array } = {}) {
    const { port, password } = await address()
    return fetch(`http://127.0.0.1:${port}/${search}`, { method: 'POST', headers: { 'X-ClickHouse-Key': password, ...headers }, body })
  }

  test('the password is asked for, in whatever form', async () => {
    const { password } = await address()
    const basic = (words: string) => ({ 'X-ClickHouse-Key': '', Authorization: `Basic ${Buffer.from(words).toString('base64')}` })
    expect((await post('SELECT 1', { headers: basic(`default:${password}`) })).status).toBe(200)
    const refused = await post('SELECT 1', { headers: basic('default:guess') })
    expect([refused.status, refused.headers.get('x-clickhouse-exception-code')]).toEqual([403, '516'])
    expect((await post('SELECT 1', { headers: { 'X-ClickHouse-Key': 'guess' } })).status).toBe(403)
  })

  test('an address that makes no sense is an error, and a bare GET says that all is well', async () => {
    const { port } = await address()
    expect((await fetch(`http://127.0.0.1:${port}//\\\\`)).status).toBe(403)
    expect((await post('SELECT 1', { search: 'tables' })).status).toBe(404)
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('Ok.\n')
  })

  test('a gzipped insert is taken, another encoding is refused and stores nothing', async () => {
    await post('CREATE TABLE numbers_in (n UInt32) ENGINE = MergeTree ORDER BY n')
    const search = `?query=${encodeURIComponent('INSERT INTO numbers_in FORMAT TSV')}`
    expect((await post('', { search, headers: { 'Content-Encoding': 'gzip' }, body: gzipSync('1\n2\n') })).status).toBe(200)
    const refused = await post('', { search, headers: { 'Content-Encoding': 'zstd' }, body: '3\n' })
    expect([refused.status, refused.headers.get('x-clickhouse-exception-code')]).toEqual([400, '89'])
    expect(await (await post('SELECT sum(n) FROM numbers_in')).text()).toBe('3\n')
  })

  test('the database and the format of the answer may be named', async () => {
    await post('CREATE DATABASE named')
    const answer = await post('SELECT currentDatabase() AS d', { search: '?database=named&default_format=CSVWithNames' })
    expect(await answer.text()).toBe('"d"\n"named"\n')
    expect(answer.headers.get('x-clickhouse-format')).toBe('CSVWithNames')
    expect((await post('SELECT 1', { search: '?database=nowhere' })).status).toBe(404)
  })

  test('an encoding that the data does not have is an error that says so, and stores nothing', async () => {
    await post('CREATE TABLE misread (n UInt32) ENGINE = MergeTree ORDER BY n')
    const search = `?query=${encodeURIComponent('INSERT INTO misread FORMAT TSV')}`
    const body = 'words that are not compressed at all\n'
    const answers = await Promise.all([
      ...['gzip', 'deflate', 'br', 'lz4'].map((encoding) => post('', { search, headers: { 'Content-Encoding': encoding }, body })),
      post('', { search: `${search}&decompress=1`, body }),
    ])
    expect(answers.map(({ status, headers }) => [status, headers.get('x-clickhouse-exception-code')])).toEqual(Array(5).fill([500, '271']))
    expect(await (await post('SELECT count() FROM misread')).text()).toBe('0\n')
  })

  test('blocks are taken and given, and errors come in blocks as well', async () => {
    await post('CREATE TABLE blocked (n UInt32) ENGINE = MergeTree ORDER BY n')
    const search = `?decompress=1&query=${encodeURIComponent('INSERT INTO blocked SETTINGS max_threads = 1 FORMAT TSV')}`
    expect((await post('', { search, body: writeBlocks(Buffer.from('1\n2\n')) })).status).toBe(200)
    const read = async (response: Response) => {
      const blocks = readBlocks(Readable.from([Buffer.from(await response.arrayBuffer())]))
      return Buffer.concat(await Readable.from(blocks).toArray()).toString()
    }
    expect(await read(await post('SELECT sum(n) FROM blocked', { search: '?compress=1' }))).toBe('3\n')
    const failed = await post('SELECT nonsense', { search: '?compress=1' })
    expect([failed.status, await read(failed)]).toEqual([500, expect.stringContaining('UNKNOWN_IDENTIFIER')])
    expect(await (await post('CREATE DATABASE empty_answer', { search: '?compress=1' })).text()).toBe('')
  })

  test('statement and data may come in one body', async () => {
    await post('CREATE TABLE one_body (n UInt32, `FORMAT x` String) ENGINE = MergeTree ORDER BY n')
    const binary = Buffer.concat([
      Buffer.from('INSERT INTO one_body (n, `FORMAT x`) FORMAT RowBinary\n'),
      Buffer.of(10, 255, 0, 0, 2, 0xff, 0xfe),
    ])
    expect((await post('', { body: binary })).status).toBe(200)
    expect((await post("INSERT INTO one_body VALUES (1, 'a FORMAT TSV\\n'), (2, 'FORMAT CSV\n')")).status).toBe(200)
    expect((await post('INSERT INTO one_body SELECT 3, char(4)\n')).status).toBe(200)
    expect((await post('INSERT INTO one_body FORMAT JSONEachRow {"n": 4}')).status).toBe(200)
    expect((await post('INSERT INTO one_body FORMAT TSV\n')).status).toBe(200)
    const answer = await post('SELECT n, hex(`FORMAT x`) FROM one_body ORDER BY n FORMAT TSV')
    expect(await answer.text()).toBe(`1\t${hex('a FORMAT TSV\n')}\n2\t${hex('FORMAT CSV\n')}\n3\t04\n4\t\n65290\tFFFE\n`)
  })

  test('a session, a role, a quota and other words that only a server needs are passed over', async () => {
    const search = '?session_id=s&session_timeout=60&quota_key=q&wait_end_of_query=1&async_insert=1&client_protocol_version=54460&query_id='
    expect(await (await post('SELECT 1', { search })).text()).toBe('1\n')
    const unknown = await post('SELECT 1', { search: '?no_such_setting=1' })
    expect(unknown.headers.get('x-clickhouse-exception-code')).toBe('115')
  })

  test('an insert cut short is an error', async () => {
    await post('CREATE TABLE cut (n UInt64) ENGINE = MergeTree ORDER BY n')
    const search = `?query=${encodeURIComponent('INSERT INTO cut FORMAT RowBinary')}`
    expect((await post('', { search, body: new Uint8Array(12) })).status).toBe(500)
    expect(await (await post('SELECT count() FROM cut')).text()).toBe('0\n')
  })
})

test('a second process that asks for the folder joins the server that is there', async () => {
  const { pid } = await address()
  const second = await connect({ url: `embedded:${folder}`, ...place })
  await second.client.command({ query: 'SELECT 1' })
  await second.close()
  expect((await address()).pid).toBe(pid)
})

test('many that start at once agree on one server', async () => {
  const fresh = await mkdtemp(join(tmpdir(), 'leyden-'))
  const storages = await Promise.all([1, 2, 3].map(() => openStorage({ url: `embedded:${fresh}` })))
  await Promise.all(storages.map((storage, i) => storage.insertSpans([spanBatch([{ id: `s${i}` }])], [])))
  const answer = await storages[0]!.client.query({ query: 'SELECT count() AS n FROM spans', format: 'JSONEachRow' })
  expect(await answer.json()).toEqual([{ n: 3 }])
  for (const storage of storages) await storage.close()
  await stopEmbedded(fresh)
  await rm(fresh, { recursive: true })
})

test('a server that is killed is started again, and nothing that was answered is lost', async () => {
  const storage = await openStorage({ url: `embedded:${folder}` })
  const before = await address()
  let stored = 0
  const writer = (async () => {
    for (; stored < 30; stored++) await storage.insertSpans([spanBatch([{ id: `k${stored}` }])], [])
  })()
  await expect.poll(() => stored, { timeout: 10_000 }).toBeGreaterThan(5)
  process.kill(before.pid, 'SIGKILL')
  await writer
  const after = await address()
  expect(after.pid).not.toBe(before.pid)
  expect([after.port, after.password]).toEqual([before.port, before.password])
  const answer = await storage.client.query({
    query: 'SELECT count() AS rows, uniqExact(span_id) AS spans FROM spans',
    format: 'JSONEachRow',
  })
  expect(await answer.json()).toEqual([{ rows: 30, spans: 30 }])
  await storage.close()
})

test('only its owner may read the password', async () => {
  expect((await stat(join(folder, 'server.json'))).mode & 0o777).toBe(0o600)
})

test('a server ends by itself soon after its last client has left', { timeout: 40_000 }, async () => {
  const fresh = await mkdtemp(join(tmpdir(), 'leyden-'))
  const last = await connect({ url: `embedded:${fresh}`, ...place })
  await last.close()
  const { pid } = await address(fresh)
  expect(isAlive(pid)).toBe(true)
  await expect.poll(() => isAlive(pid), { timeout: 30_000, interval: 200 }).toBe(false)
  await rm(fresh, { recursive: true })
})
