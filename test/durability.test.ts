// ClickHouse goes away, Leyden is killed, spans are bad, the disk is full: nothing that was acknowledged is lost, and the books
// balance, exactly: received = accepted + refused; accepted = stored + queued + quarantined.

import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { freePort } from './leyden.ts'
import { spawnLeyden, type LeydenProcess } from './process.ts'
import { chat, endOf, reward, traces, type SpanSpec } from './spans.ts'
import { testStorage, type TestStorage } from './storage.ts'

let storage: TestStorage
let line: Line
let leyden: LeydenProcess | undefined
let port: number
let metrics: number
beforeAll(async () => {
  storage = await testStorage()
  const server = JSON.parse(await readFile(join(storage.folder, 'server.json'), 'utf8')) as { port: number; password: string }
  line = await openLine(server.port)
  port = await freePort()
  metrics = await freePort()
  const config = `
receivers:
  otlp: {protocols: {http: {endpoint: "127.0.0.1:${port}"}}}
connectors:
  rollouts: {root_grace: 200ms, sending_queue: {storage: file_storage}}
processors: {policy_calls: , credit_assignment: }
exporters: {clickhouse: {sending_queue: {storage: file_storage}}} # which rollouts pass by
extensions:
  clickhouse_storage: {url: "http://127.0.0.1:${line.port}", password: "${server.password}"}
  file_storage: {directory: queue, max_size_mib: 2}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {port: ${metrics}}}}}]}}
  extensions: [clickhouse_storage, file_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    logs: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, credit_assignment], exporters: [clickhouse]}
`
  await writeFile(join(storage.folder, 'pipeline.yaml'), config)
})
afterAll(async () => {
  await leyden?.stop('SIGKILL')
  line.close()
  await storage.close()
})

/** What leads to ClickHouse, and can be cut. */
interface Line {
  readonly port: number
  cut(): void
  mend(): void
  close(): void
}

async function openLine(to: number): Promise<Line> {
  const sockets = new Set<Socket>()
  let whole = true
  const server = createServer((socket) => {
    if (!whole) return void socket.destroy()
    const other = connect(to, '127.0.0.1')
    for (const [from, into] of [
      [socket, other],
      [other, socket],
    ] as const) {
      sockets.add(from)
      from.on('error', () => into.destroy()).on('close', () => sockets.delete(from) && into.destroy())
      from.pipe(into)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    whole = false
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    mend: () => void (whole = true),
    close: () => void (cut(), server.close()),
  }
}

async function start(): Promise<void> {
  leyden = spawnLeyden(['run', '--config', 'pipeline.yaml'], { cwd: storage.folder })
  await leyden.says('Everything is ready.')
}

/** Spans that were sent by the answer they got, over all runs of Leyden. */
const sent = { received: 0, accepted: 0, refused: 0 }

/** Sends spans; `invalid` of them have no trace id. Resolves with the status. */
async function post(trace: string, spans: readonly SpanSpec[], { ids = {}, invalid = 0 } = {}): Promise<number> {
  const request = traces(trace, spans, ids) as { resourceSpans: { scopeSpans: { spans: { traceId: string }[] }[] }[] }
  for (const span of request.resourceSpans[0]!.scopeSpans[0]!.spans.slice(0, invalid)) span.traceId = ''
  const { status } = await send('traces', request)
  sent.received += spans.length
  sent.accepted += status === 200 ? spans.length - invalid : 0
  sent.refused += status === 200 ? invalid : spans.length
  return status
}

const send = (signal: 'traces' | 'logs', document: object) =>
  fetch(`http://127.0.0.1:${port}/v1/${signal}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(document),
  })

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text()
  const lines = text.split('\n').filter((found) => found.startsWith(`${name}{`))
  return lines.reduce((sum, found) => sum + Number(found.slice(found.lastIndexOf(' '))), 0)
}

/** Counted where the data is, not where it was counted: in the tables, and by the queue that was opened on what lies on disk. */
async function books() {
  const [tables] = await storage.rows<{ stored: number; quarantined: number }>(
    `SELECT (SELECT toUInt32(count()) FROM spans_unique WHERE signal = 'span') AS stored,
            (SELECT toUInt32(count()) FROM rejects WHERE reason = 'refused_by_clickhouse') AS quarantined`,
  )
  return { ...tables!, queued: await metric('leyden_queued_items') }
}

/** `logs`: how many of what is queued are log records. */
async function expectBalance({ logs = 0 } = {}): Promise<void> {
  const { stored, queued: items, quarantined } = await books()
  const queued = items - logs
  expect(sent.received).toBe(sent.accepted + sent.refused)
  expect(sent.accepted).toBe(stored + queued + quarantined)
}

test('the books balance while ClickHouse is away, after a kill, and when all is well again', async () => {
  await storage.client.command({ query: "ALTER TABLE spans ADD CONSTRAINT no_poison CHECK name != 'poison'" })
  await start()
  const many = (id: string, n: number) => Array.from({ length: n }, (_, i) => ({ id: `${id}-${i}` }))

  // All is well, but for spans that nobody can take and one that only ClickHouse cannot.
  expect(await post('well', many('w', 30), { invalid: 7 })).toBe(200)
  expect(await post('bad', [...many('b', 5), { id: 'p', name: 'poison' }])).toBe(200)
  await expectBalance()
  expect(await books()).toEqual({ stored: 28, queued: 0, quarantined: 1 })

  // ClickHouse is away: what is acknowledged waits on disk, also a rollout and its end; what finds no room is refused.
  line.cut()
  const ids = { 'leyden.rollout.id': 'waiting' }
  const call = [chat('c', { parent: 'r', at: 10 }), reward('w', 1, { parent: 'r', at: 50 })]
  const requests = [post('waiting', call, { ids }), post('away', many('a', 20), { invalid: 3 }), post('bad', [{ id: 'q', name: 'poison' }])]
  expect(await Promise.all(requests)).toEqual([200, 200, 200])
  expect((await send('logs', endOf('waiting'))).status).toBe(200)
  expect(await post('large', [{ id: 'l', attributes: { text: 'x'.repeat(2_500_000) } }])).toBe(503)
  await expectBalance({ logs: 1 })
  expect(await metric('otelcol_receiver_accepted_spans_total')).toBe(sent.accepted)
  expect(await metric('otelcol_receiver_refused_spans_total')).toBe(sent.refused)

  // Leyden is killed, and starts while ClickHouse still is away.
  await leyden!.stop('SIGKILL')
  await start()
  await expectBalance({ logs: 1 })
  expect(await post('later', many('n', 10))).toBe(200)
  await expectBalance({ logs: 1 })

  // ClickHouse is back.
  line.mend()
  await expect.poll(() => metric('leyden_queued_items'), { timeout: 10_000 }).toBe(0)
  await expectBalance()
  expect(await books()).toEqual({ stored: 57, queued: 0, quarantined: 2 })
  await expect
    .poll(() => storage.rows("SELECT closed_by, toUInt32(spans) AS spans FROM rollouts FINAL WHERE rollout_id = 'waiting'"))
    .toEqual([{ closed_by: 'end', spans: 3 }])
  expect(await post('well', many('again', 3))).toBe(200)
  await expectBalance()
  expect(await leyden!.stop('SIGTERM')).toBe(0)
}, 60_000)
