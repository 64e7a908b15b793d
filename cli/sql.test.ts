import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { spanBatch } from '../test/conformance.ts'
import { sql } from './sql.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
  await storage.insertSpans([spanBatch()], [])
})
afterAll(() => storage.close())

const ask = (...args: string[]) => runCommand(sql, ['--url', storage.url, ...args])

test('the answer to a question goes to standard output', async () => {
  expect(await ask('SELECT name, kind FROM spans ORDER BY start_time')).toEqual({
    code: 0,
    stdout: 'name\tkind\nrun\tinternal\nchat policy\tinternal\n',
    stderr: '',
  })
})

test.each([
  [['--format', 'JSONEachRow'], '{"n":2}\n'],
  [['--format', 'CSV'], '2\n'],
])('with %j it comes in another format', async (args, stdout) => {
  expect(await ask(...args, 'SELECT count() AS n FROM spans')).toMatchObject({ code: 0, stdout })
})

test('a mistake is told in one line', async () => {
  const { code, stdout, stderr } = await ask('SELECT nonsense FROM spans')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^Error: Unknown expression identifier `nonsense`.*\(UNKNOWN_IDENTIFIER\)\n$/)
})

test('the SQL may stand in a file, over several lines', async () => {
  const file = join(storage.folder, 'question.sql')
  await writeFile(file, 'SELECT\n  1 AS one,\n  2 AS two;\n')
  expect(await ask('-f', file)).toMatchObject({ code: 0, stdout: 'one\ttwo\n1\t2\n' })
})

test('a configuration says where the store is', async () => {
  const config = `yaml:extensions::clickhouse_storage::url: "${storage.url}"`
  const rest = [
    'receivers::otlp: {protocols: {http: }}',
    'exporters::debug: ',
    'service: {extensions: [clickhouse_storage], pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}',
  ]
  const sources = [config, ...rest.map((yaml) => `yaml:${yaml}`)].flatMap((source) => ['--config', source])
  expect(await runCommand(sql, [...sources, 'SELECT count() AS n FROM spans'])).toEqual({ code: 0, stdout: 'n\n2\n', stderr: '' })
})

test('a folder without data is said to be one, and is not made', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  const { code, stderr } = await runCommand(sql, ['SELECT 1'], { cwd: folder })
  expect(code).toBe(1)
  expect(stderr).toBe(
    `Error: there is no data in ${folder}/leyden_data yet: start the pipeline there, or name another place with --config or --url\n`,
  )
  await rm(folder, { recursive: true })
})

test('a server that is not there is said not to be there', async () => {
  const { code, stderr } = await runCommand(sql, ['--url', 'http://127.0.0.1:1', 'SELECT 1'])
  expect(code).toBe(1)
  expect(stderr).toMatch(/^Error: cannot reach ClickHouse: .*ECONNREFUSED.*\n$/)
})

test.each([
  [['SELECT', '1'], 'put the SQL in quotes'],
  [[], 'there is no SQL to run'],
  [['--file', 'nosuch.sql'], 'Error: nosuch.sql: no such file or folder\n'],
  [['--url', 'tcp://localhost', 'SELECT 1'], '--url must be embedded'],
])('%j is explained', async (args, message) => {
  const { code, stderr } = await runCommand(sql, args)
  expect(code).toBe(1)
  expect(stderr).toContain(message)
})
