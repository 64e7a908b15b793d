// Leyden and the OpenTelemetry Collector's ClickHouse exporter share tables: rows of both tell the same, and the queries of the Collector's
// users find both. What the Collector wrote is recorded in fixtures/otel_tables; with LEYDEN_COLLECTOR it is written anew and must be the same.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { scan } from '../data/scan.ts'
import clickhouse from '../exporters/clickhouse.ts'
import { readAddress } from '../storage/embedded/address.ts'
import { configure } from './conformance.ts'
import { freePort } from './leyden.ts'
import { testStorage, type TestStorage } from './storage.ts'

const RECORD = join(import.meta.dirname, 'fixtures/otel_tables')
const COLLECTOR = process.env.LEYDEN_COLLECTOR ?? ''
const SIGNALS = ['traces', 'logs'] as const
const TABLES = ['otel_logs', 'otel_traces', 'otel_traces_trace_id_ts', 'otel_traces_trace_id_ts_mv']
const ROWS = { otel_traces: 7, otel_logs: 3 }

const recorded = (name: string) => readFileSync(join(RECORD, name), 'utf8')
const request = JSON.parse(recorded('request.json')) as Record<(typeof SIGNALS)[number], object>

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const run = (query: string) => storage.client.command({ query })
const sorted = (table: string) => storage.rows(`SELECT * FROM ${table} ORDER BY Timestamp, SpanId`)
const lines = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

async function writeByLeyden(database: string): Promise<void> {
  const { port, password } = (await readAddress(storage.folder))!
  const exporter = configure(clickhouse, { url: `http://127.0.0.1:${port}`, database, password })
  for (const signal of SIGNALS) {
    await exporter.export([scan(signal, fromJson(signal, request[signal])).batch], signal, new AbortController().signal)
  }
  await exporter.shutdown!()
}

async function writeByCollector(database: string): Promise<void> {
  const { port, password } = (await readAddress(storage.folder))!
  const otlp = await freePort()
  const config = join(storage.folder, 'collector.yaml')
  await writeFile(
    config,
    `
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:${otlp}"}}}}
exporters: {clickhouse: {endpoint: "http://127.0.0.1:${port}", username: default, password: "${password}", database: ${database}, sending_queue: {enabled: false}}}
service:
  telemetry: {logs: {level: error}, metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [clickhouse]}, logs: {receivers: [otlp], exporters: [clickhouse]}}
`,
  )
  const collector = spawn(join(COLLECTOR, 'otelcol-peer'), ['--config', config], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = once(collector, 'exit')
  for (const signal of SIGNALS) {
    const post = () =>
      fetch(`http://127.0.0.1:${otlp}/v1/${signal}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(request[signal]),
      })
    await expect.poll(async () => (await post().catch(() => null))?.status, { timeout: 20_000 }).toBe(200)
  }
  collector.kill()
  await ended
}

/** Every row of one writer is one of the other, to the last column. */
async function expectTwiceEach(database: string): Promise<void> {
  for (const [table, n] of Object.entries(ROWS)) {
    const rows = (await storage.rows(`SELECT * FROM ${database}.${table}`)).map((row) => JSON.stringify(row)).sort()
    expect(rows.filter((_, i) => i % 2)).toEqual(rows.filter((_, i) => i % 2 === 0))
    expect([rows.length, new Set(rows).size]).toEqual([2 * n, n])
  }
}

test('beside what the Collector wrote, Leyden writes the same rows, and its users’ queries find both', async () => {
  await run('CREATE DATABASE theirs')
  for (const statement of recorded('tables.sql').split(';\n').filter(Boolean)) await run(statement.replaceAll('{database}', 'theirs'))
  for (const table of Object.keys(ROWS)) await run(`INSERT INTO theirs.${table} FORMAT JSONEachRow\n${recorded(`${table}.jsonl`)}`)
  await writeByLeyden('theirs')
  await expectTwiceEach('theirs')

  const since = "Timestamp >= toDateTime('2025-11-24 00:00:00', 'UTC')"
  const found = async (query: string) => (await storage.rows(query)).length
  const spans = `SELECT SpanName, toString(SpanAttributes), toString(Events.Name), toString(Links.TraceId) FROM theirs.otel_traces WHERE ${since}`
  expect(await found(`${spans} AND ServiceName = 'shop' AND SpanAttributes['half'] = '0.5'`)).toBe(2)
  expect(await found(`${spans} AND ServiceName = 'shop' AND StatusCode = 'Error'`)).toBe(2)
  expect(await found(`${spans} AND Duration > 1 * 1e9`)).toBe(2)
  const bounds = (of: string) => `(SELECT ${of} FROM theirs.otel_traces_trace_id_ts WHERE TraceId = id)`
  const ofTrace = `WITH '0af7651916cd43dd8448eb211c80319c' AS id, ${bounds('min(Start)')} AS first, ${bounds('max(End) + 1')} AS last`
  expect(await found(`${ofTrace} ${spans} AND TraceId = id AND Timestamp >= first AND Timestamp <= last`)).toBe(14)
  const logs = `SELECT Timestamp AS log_time, Body FROM theirs.otel_logs WHERE toStartOfFiveMinutes(Timestamp) > 0 AND ${since}`
  expect(await found(`${logs} AND ServiceName = 'shop' AND LogAttributes['yes'] = 'true'`)).toBe(2)
  expect(await found(`${logs} AND hasToken(Body, 'hello')`)).toBe(2)
  expect(await found(`${logs} AND JSONExtractFloat(Body, 'half') > 0.1`)).toBe(2)
})

test.skipIf(!COLLECTOR).each(['the Collector', 'Leyden'])(
  'a Collector and Leyden write the same rows into tables that %s made (skipped without LEYDEN_COLLECTOR=<build folder>)',
  { timeout: 60_000 },
  async (first) => {
    const database = first === 'Leyden' ? 'by_leyden' : 'by_collector'
    if (first === 'Leyden') await writeByLeyden(database)
    await run(`CREATE DATABASE IF NOT EXISTS ${database}`)
    await writeByCollector(database)
    if (first !== 'Leyden') {
      for (const table of Object.keys(ROWS))
        await expect(lines(await sorted(`${database}.${table}`))).toMatchFileSnapshot(join(RECORD, `${table}.jsonl`))
      const made = await Promise.all(TABLES.map((table) => storage.rows<{ statement: string }>(`SHOW CREATE TABLE ${database}.${table}`)))
      const statements = made
        .map(([row]) => `${row!.statement};\n`)
        .join('')
        .replaceAll(database, '{database}')
      await expect(statements).toMatchFileSnapshot(join(RECORD, 'tables.sql'))
      await writeByLeyden(database)
    }
    await expectTwiceEach(database)
  },
)
