import { afterAll, beforeAll, expect, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { schema } from './schema.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

test('print shows every statement and needs no ClickHouse', async () => {
  const { code, stdout } = await runCommand(schema, ['print'])
  expect(code).toBe(0)
  for (const name of ['spans', 'rollouts', 'transition_rows', 'rewards', 'credits', 'rejects']) {
    expect(stdout).toContain(`CREATE TABLE IF NOT EXISTS ${name} (`)
  }
  expect(stdout).toContain('CREATE VIEW IF NOT EXISTS transitions AS')
})

test('what print shows can be run as it is', async () => {
  const { stdout } = await runCommand(schema, ['print'])
  await storage.client.command({ query: 'CREATE DATABASE printed' })
  for (const query of stdout.split(/;\n/).filter((statement) => statement.trim())) {
    await storage.client.command({
      query: query
        .replace(/((?:TABLE|VIEW) IF NOT EXISTS) /, '$1 printed.')
        .replaceAll(/FROM (spans|rollouts|transition_rows|transitions)\b/g, 'FROM printed.$1'),
    })
  }
  expect(await storage.rows("SELECT count() AS n FROM system.tables WHERE database = 'printed'")).toEqual(
    await storage.rows("SELECT count() AS n FROM system.tables WHERE database = 'default'"),
  )
})

test('check says what is missing, apply makes it, and then all is well', async () => {
  const pipeline =
    'receivers: {otlp: {protocols: {http: }}}, exporters: {debug: }, service: {extensions: [clickhouse_storage], pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}'
  const config = `{extensions: {clickhouse_storage: {url: "${storage.url}", database: fresh}}, ${pipeline}}`
  const run = (action: string) => runCommand(schema, [action, '--config', `yaml:${config}`])
  await storage.client.command({ query: 'CREATE DATABASE fresh' })
  expect(await run('check')).toEqual({ code: 1, stdout: 'no schema yet: run `leyden schema apply`\n', stderr: '' })
  expect(await run('apply')).toMatchObject({ code: 0, stderr: '' })
  expect(await run('apply')).toEqual({ code: 0, stdout: '', stderr: '' })
  expect(await run('check')).toEqual({ code: 0, stdout: '', stderr: '' })
})

test('check names each table and column that somebody took away', async () => {
  await storage.client.command({ query: 'ALTER TABLE rollouts DROP COLUMN calls' })
  await storage.client.command({ query: 'DROP TABLE credits' })
  expect(await runCommand(schema, ['check', '--url', storage.url])).toEqual({
    code: 1,
    stdout: 'column rollouts.calls is missing\ntable credits is missing\n',
    stderr: '',
  })
})

test('a subcommand is needed', async () => {
  expect(await runCommand(schema, [])).toMatchObject({ code: 1, stderr: 'Error: say what to do: leyden schema print|apply|check\n' })
})
