// From an otel_traces table to transitions, and then doctor over what came of it: how fast spans are replayed, and how long doctor takes.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouseClient } from '@clickhouse/client'

import { scan } from '../data/scan.ts'
import { connect } from '../storage/connection.ts'
import { insertOtel } from '../storage/otel_insert.ts'
import { otelRows } from '../storage/otel_rows.ts'
import { tracesTables } from '../storage/otel_tables.ts'
import { startClickHouse } from './clickhouse.ts'
import { launchLeyden, pipeline } from './leyden.ts'
import { freshBody, makeLoad } from './load.ts'
import { cpuSeconds, end, freePorts } from './processes.ts'
import { formatTable } from './table.ts'

const BATCH = 512
const POLL_MS = 50

export async function replayAndDoctor(spans: number): Promise<void> {
  const clickhouse = await startClickHouse()
  const { client, close } = await connect({ url: `embedded:${clickhouse.store}`, database: 'default', username: 'default', password: '' })
  try {
    const there = await fill(client, spans)
    const [health, metrics, free] = (await freePorts(3)) as [number, number, number]
    const config = join(clickhouse.folder, 'pipeline.yaml')
    const launch = async (receiver: string, rootGrace: string) => {
      await writeFile(config, pipeline({ store: clickhouse.store, health, metrics, receiver, signals: ['traces'], rootGrace }))
      return launchLeyden(config, health)
    }
    const replaying = await launch(`clickhouse_traces: {progress_file: ${join(clickhouse.folder, 'progress')}}`, '1h')
    // From when it is up; what it has replayed by then does not count.
    const cpu = () => Promise.all([replaying.pid!, clickhouse.pid].map(cpuSeconds))
    const [before, begun, cpuBefore] = [await stored(clickhouse.numbers), performance.now(), await cpu()]
    await reached(clickhouse.numbers, STORED, there.spans)
    const replayed = performance.now() - begun
    const replayCpu = (await cpu()).map((seconds, i) => (seconds - cpuBefore[i]!).toFixed(1))
    const rest = there.spans - before
    await end(replaying, 'SIGKILL')

    // What was stored is resumed, and becomes rollouts.
    const making = await launch(`otlp: {protocols: {http: {endpoint: localhost:${free}}}}`, '1s')
    await reached(clickhouse.numbers, 'SELECT uniqExact(rollout_id) FROM rollouts', there.rollouts)
    const makingCpu = await cpuSeconds(making.pid!)
    await end(making, 'SIGTERM')

    const last = Math.min(there.rollouts, 1_000)
    const asked = performance.now()
    await doctor(config, last)
    const took = performance.now() - asked
    const rows = [
      ['spans replayed and stored', rest, seconds(replayed), Math.round((rest / replayed) * 1e3), ...replayCpu],
      ['rollouts made of them, starting included', there.rollouts, '', '', makingCpu.toFixed(1), ''],
      ['rollouts that doctor read', last, seconds(took), Math.round((last / took) * 1e3), '', ''],
    ]
    console.log(formatTable(['', '', 's', 'a second', 's of CPU', 'of ClickHouse'], rows))
  } finally {
    await close()
    await clickhouse.stop()
  }
}

const STORED = 'SELECT count() FROM spans'
/** The schema is made by the process that is measured. */
const stored = async (numbers: Numbers): Promise<number> => (await numbers(STORED).catch(() => [0]))[0] ?? 0

type Numbers = (sql: string) => Promise<number[]>

const seconds = (ms: number): string => (ms / 1e3).toFixed(1)

/** A table as the Collector's exporter fills it. */
async function fill(client: ClickHouseClient, spans: number): Promise<{ spans: number; rollouts: number }> {
  for (const query of tracesTables({ traces_table_name: 'otel_traces', logs_table_name: '', ttl: 0 })) await client.command({ query })
  const load = makeLoad(BATCH, spans)
  const batches = load.requests.map((request) => scan('traces', freshBody(request, 1)).batch)
  await insertOtel(client, 'otel_traces', otelRows('traces', batches), new AbortController().signal)
  const answer = await client.query({ query: 'SELECT uniqExact(TraceId) FROM otel_traces', format: 'JSONCompactEachRow' })
  return { spans: load.spans, rollouts: Number((await answer.json<(string | number)[]>())[0]![0]) }
}

async function reached(numbers: Numbers, query: string, wanted: number): Promise<void> {
  while (((await numbers(query).catch(() => [0]))[0] ?? 0) < wanted) await sleep(POLL_MS)
}

async function doctor(config: string, last: number): Promise<void> {
  const cli = createRequire(import.meta.url).resolve('#leyden')
  const child = spawn(process.execPath, [cli, 'doctor', '--config', config, '--last', String(last)], { stdio: 'ignore' })
  const [code] = (await once(child, 'exit')) as [number]
  if (code !== 0) throw new Error(`doctor ended with ${code}`)
}
