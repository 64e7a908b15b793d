// Leyden dies at any moment: what it acknowledged is there afterwards, once.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { openStorage } from '../storage/open.ts'
import { freePort } from './leyden.ts'
import { spawnLeyden, type LeydenProcess } from './process.ts'
import { chat, endOf, reward, spanIdOf, traces } from './spans.ts'
import { stopEmbedded } from './storage.ts'

/** Acknowledged spans before the kill: some fifty rollouts, some of them closed and revised already. */
const ENOUGH = 200

let folder: string
let port: number
let leyden: LeydenProcess | undefined

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-kill-'))
  port = await freePort()
  await writeFile(
    join(folder, 'pipeline.yaml'),
    `
receivers:
  otlp: {protocols: {http: {endpoint: "127.0.0.1:${port}"}}}
connectors:
  rollouts: {root_grace: 200ms}
processors: {policy_calls: , credit_assignment: }
exporters: {clickhouse: }
extensions:
  clickhouse_storage: {url: "embedded:${folder}/store"}
service:
  telemetry: {metrics: {level: none}}
  extensions: [clickhouse_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    logs: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, credit_assignment], exporters: [clickhouse]}
`,
  )
})
afterAll(async () => {
  await leyden?.stop('SIGKILL')
  await stopEmbedded(join(folder, 'store'))
  await rm(folder, { recursive: true, force: true })
})

async function start(): Promise<void> {
  leyden = spawnLeyden(['run', '--config', 'pipeline.yaml'], { cwd: folder })
  await leyden.says('Everything is ready.')
}

/** True only when the server said that it has stored it. */
async function post(signal: string, document: object): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/${signal}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(document),
    })
    return answer.ok
  } catch {
    return false
  }
}

test('kill -9 under load loses no acknowledged span and doubles none, late ones included', async () => {
  await start()
  const acknowledged = new Set<string>()
  const finished = new Set<string>()
  let sending = true

  async function agent(n: number): Promise<void> {
    for (let i = 0; sending; i++) {
      const id = `k${n}-${i}`
      const ids = { 'leyden.rollout.id': id }
      const calls = [chat(`${id}a`, { parent: `${id}r`, at: 10 }), chat(`${id}b`, { parent: `${id}r`, at: 20 })]
      if (await post('traces', traces(id, calls, ids))) for (const call of calls) acknowledged.add(spanIdOf(call.id))
      const rest = [{ id: `${id}r`, at: 0, for: 500 }, reward(`${id}w`, 1, { parent: `${id}r`, at: 40 })]
      const rootStored = await post('traces', traces(id, rest, ids))
      if (rootStored) for (const span of rest) acknowledged.add(spanIdOf(span.id))
      if (rootStored || (await post('logs', endOf(id)))) finished.add(id)
      // Every third rollout gets a span after its end.
      if (i % 3 === 0) {
        await post('logs', endOf(id))
        const late = { id: `${id}l`, parent: `${id}r`, at: 60 }
        if (await post('traces', traces(id, [late], ids))) acknowledged.add(spanIdOf(late.id))
      }
    }
  }

  const agents = [1, 2, 3, 4, 5, 6].map(agent)
  while (acknowledged.size < ENOUGH) await sleep(20)
  await leyden!.stop('SIGKILL')
  sending = false
  await Promise.all(agents)

  await start()
  const storage = await openStorage({ url: `embedded:${folder}/store` })
  const query = async <T>(sql: string) => (await storage.client.query({ query: sql, format: 'JSONEachRow' })).json<T>()
  try {
    const spans = await query<{ span_id: string; n: string }>(
      `SELECT span_id, count() AS n FROM spans_unique WHERE signal = 'span' GROUP BY span_id`,
    )
    const stored = new Map(spans.map(({ span_id, n }) => [span_id, Number(n)]))
    expect([...acknowledged].filter((id) => !stored.has(id))).toEqual([])
    expect([...stored].filter(([, n]) => n > 1)).toEqual([])

    // Every finished rollout is two transitions of one revision that covers everything stored for it.
    const unsettled = async () => {
      const rows = await query<{ id: string; transitions: number; revisions: number; covered: number; stored: number }>(`
        SELECT splitByChar(char(0), rollout_hint)[1] AS id, toUInt32(count()) AS stored,
               any(t.n) AS transitions, any(t.revisions) AS revisions, any(r.covered) AS covered
        FROM spans_unique
        LEFT JOIN (SELECT rollout_id, toUInt32(count()) AS n, toUInt32(uniqExact(revision)) AS revisions FROM transitions GROUP BY rollout_id) AS t
          ON t.rollout_id = id
        LEFT JOIN (SELECT rollout_id, toUInt32(argMax(spans, revision)) AS covered FROM rollouts GROUP BY rollout_id) AS r ON r.rollout_id = id
        GROUP BY id`)
      return rows.filter((row) => finished.has(row.id) && !(row.transitions === 2 && row.revisions === 1 && row.covered === row.stored))
    }
    let missing = await unsettled()
    for (const deadline = Date.now() + 30_000; missing.length > 0 && Date.now() < deadline; missing = await unsettled()) await sleep(100)
    expect(missing).toEqual([])
  } finally {
    await storage.close()
  }
  expect(await leyden!.stop('SIGTERM')).toBe(0)
}, 120_000)
