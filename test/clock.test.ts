// The clock is set back, while Leyden runs or between two runs: rollouts are closed as if it had not been, and nothing is forgotten.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, onTestFinished, test, vi } from 'vitest'

import { openStorage } from '../storage/open.ts'
import { freePort, startLeyden } from './leyden.ts'
import { spawnLeyden } from './process.ts'
import { chat, traceIdOf, traces } from './spans.ts'
import { stopEmbedded } from './storage.ts'

const HOUR_MS = 3_600_000

test('a clock that is set back an hour neither holds up a rollout nor has it read again', async () => {
  const leyden = await startLeyden()
  onTestFinished(async () => {
    vi.restoreAllMocks()
    await leyden.remove()
  })
  const send = async (trace: string, spans: Parameters<typeof traces>[1]) =>
    expect((await leyden.post('traces', traces(trace, spans))).status).toBe(200)
  await send('open', [{ id: 'o0' }])

  const now = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => now() - HOUR_MS)
  await send('open', [chat('o1', { parent: 'o0' })])
  await send('after', [{ id: 'a0' }, chat('a1', { parent: 'a0' })])
  const rows = await leyden.rows<{ trace_id: string }>(2, 'SELECT trace_id FROM transitions ORDER BY trace_id')
  expect(rows.map(({ trace_id }) => trace_id)).toEqual([traceIdOf('open'), traceIdOf('after')].sort())

  await send('late', [{ id: 'l0' }])
  await leyden.rows(3, 'SELECT 1 FROM rollouts FINAL')
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  expect(await storage.uncovered()).toEqual([])
  await storage.close()
})

test('nor does one that is set back between two runs, each of which is killed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-clock-'))
  const port = await freePort()
  const store = join(folder, 'store')
  await writeFile(
    join(folder, 'pipeline.yaml'),
    `
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:${port}"}}}}
connectors: {rollouts: {root_grace: 1s}}
processors: {policy_calls: }
exporters: {clickhouse: }
extensions: {clickhouse_storage: {url: "embedded:${store}"}}
service:
  telemetry: {metrics: {level: none}}
  extensions: [clickhouse_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls], exporters: [clickhouse]}
`,
  )
  const setBack = `--import=data:text/javascript,${encodeURIComponent(`const now = Date.now; Date.now = () => now() - ${HOUR_MS}`)}`
  const start = async (env: Record<string, string>) => {
    const leyden = spawnLeyden(['run', '--config', 'pipeline.yaml'], { cwd: folder, env })
    onTestFinished(() => void leyden.child.kill('SIGKILL'))
    await leyden.says('Everything is ready.')
    return leyden
  }
  const send = async (trace: string, spans: Parameters<typeof traces>[1]) => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify(traces(trace, spans))
    expect((await fetch(`http://127.0.0.1:${port}/v1/traces`, { method: 'POST', headers, body })).status).toBe(200)
  }

  let leyden = await start({})
  const storage = await openStorage({ url: `embedded:${store}` })
  onTestFinished(async () => {
    await storage.close()
    await stopEmbedded(store)
    await rm(folder, { recursive: true })
  })
  const closed = async () => {
    const answer = await storage.client.query({
      query: 'SELECT trace_id, count() AS n FROM transitions GROUP BY trace_id',
      format: 'JSONEachRow',
    })
    return new Map((await answer.json<{ trace_id: string; n: string }>()).map(({ trace_id, n }) => [trace_id, Number(n)]))
  }
  await send('revised', [{ id: 'r0' }, chat('r1', { parent: 'r0' })])
  await expect.poll(closed, { timeout: 8_000 }).toEqual(new Map([[traceIdOf('revised'), 1]]))
  await send('open', [chat('o1', { parent: 'o0' })])
  await leyden.stop('SIGKILL')

  leyden = await start({ NODE_OPTIONS: setBack })
  await send('open', [{ id: 'o0' }])
  await send('revised', [chat('r2', { parent: 'r0', at: 10 })])
  await leyden.stop('SIGKILL')

  await start({ NODE_OPTIONS: setBack })
  const all = new Map([
    [traceIdOf('open'), 1],
    [traceIdOf('revised'), 2],
  ])
  await expect.poll(closed, { timeout: 8_000 }).toEqual(all)
  await expect.poll(() => storage.uncovered()).toEqual([])
}, 60_000)
