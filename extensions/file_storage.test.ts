import { mkdtemp, readdir, rm } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { beforeEach, expect, onTestFinished, test } from 'vitest'

import { registry } from '../cli/registry.ts'
import { loadConfig } from '../pipeline/config.ts'
import { startGraph } from '../pipeline/graph.ts'
import { createTelemetry } from '../pipeline/telemetry.ts'
import { conforms, configure, problems, testContext } from '../test/conformance.ts'
import { freePort } from '../test/leyden.ts'
import { httpPeer } from '../test/otlp_peer.ts'
import { endOf, traces } from '../test/spans.ts'
import fileStorage from './file_storage.ts'

conforms(fileStorage)

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

/** A Leyden that passes on what it gets to `url`, over a queue on disk, and what its metrics say. */
async function start(url: string, queue = '{}') {
  const [port, metrics] = [await freePort(), await freePort()]
  const config = `
receivers:
  otlp: {protocols: {http: {endpoint: "127.0.0.1:${port}"}}}
exporters:
  otlp_http:
    endpoint: ${url}
    retry_on_failure: {initial_interval: 5ms, max_interval: 5ms}
    sending_queue: {storage: file_storage}
extensions:
  file_storage: {directory: "${folder}/queue"}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {port: ${metrics}}}}}]}, logs: {output_paths: ["${folder}/log"]}}
  extensions: [file_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_http]}
    logs: {receivers: [otlp], exporters: [otlp_http]}
`
  const loaded = await loadConfig([`yaml:${config}`, `yaml:${queue}`], { registry, env: {}, cwd: folder })
  expect(loaded.problems).toEqual([])
  const telemetry = await createTelemetry(loaded.plan!.service.telemetry)
  const running = await startGraph(loaded.plan!, telemetry)
  return {
    post: (signal: 'traces' | 'logs', document: object) =>
      fetch(`http://127.0.0.1:${port}/v1/${signal}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(document),
      }),
    async metric(name: string): Promise<number> {
      const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text()
      const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`))
      return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
    },
    async stop() {
      await running.shutdown()
      await telemetry.shutdown()
    },
  }
}

/** A server that is away until told, and what it then takes. */
async function backend() {
  const state = { status: 503, taken: 0 }
  const { url, asked } = await httpPeer((_request: IncomingMessage, response: ServerResponse) => {
    if (state.status === 200) state.taken++
    response.writeHead(state.status).end()
  })
  return { url, asked, state }
}

test('what is acknowledged while the backend is away reaches it when it is back', async () => {
  const { url, state } = await backend()
  const { post, metric, stop } = await start(url)
  for (let i = 0; i < 5; i++) expect((await post('traces', traces(`t${i}`, [{ id: 'a' }, { id: 'b' }]))).status).toBe(200)
  expect((await post('logs', endOf('r1'))).status).toBe(200)
  expect([await metric('otelcol_exporter_queue_size'), await metric('otelcol_exporter_sent_spans_total')]).toEqual([6, 0])
  state.status = 200
  await expect.poll(() => state.taken).toBe(6)
  await expect.poll(() => metric('otelcol_exporter_queue_size')).toBe(0)
  expect(await metric('otelcol_exporter_sent_spans_total')).toBe(10)
  await stop()
})

test('a restart in between loses nothing, and does not wait for the backend', async () => {
  const { url, state } = await backend()
  const first = await start(url)
  for (let i = 0; i < 5; i++) await first.post('traces', traces(`t${i}`, [{ id: 'a' }]))
  await first.stop()
  const second = await start(url)
  expect(await second.metric('otelcol_exporter_queue_size')).toBe(5)
  await second.post('traces', traces('t5', [{ id: 'a' }]))
  state.status = 200
  await expect.poll(() => state.taken).toBe(6)
  await expect.poll(() => second.metric('otelcol_exporter_queue_size')).toBe(0)
  await second.stop()
  const third = await start(url)
  expect(await third.metric('otelcol_exporter_queue_size')).toBe(0)
  await third.stop()
  expect(state.taken).toBe(6)
})

test('what the backend refuses for good is counted and does not stand in the way', async () => {
  const { url, state } = await backend()
  state.status = 400
  const { post, metric, stop } = await start(url)
  await post('traces', traces('t0', [{ id: 'a' }]))
  await expect.poll(() => metric('otelcol_exporter_send_failed_spans_total')).toBe(1)
  expect(await metric('otelcol_exporter_queue_size')).toBe(0)
  await stop()
})

test('one request that the backend turns away again and again does not stand in the way of the others', async () => {
  const taken: number[] = []
  const { url } = await httpPeer((request, response) => {
    const size = Number(request.headers['content-length'])
    if (size < 1_000) taken.push(size)
    response.writeHead(size < 1_000 ? 200 : 503).end()
  })
  const options = `{compression: none, retry_on_failure: {max_elapsed_time: 10ms}, sending_queue: {num_consumers: 1}}`
  const { post, metric, stop } = await start(url, `exporters: {otlp_http: ${options}}`)
  await post('traces', traces('large', [{ id: 'a', attributes: { prompt: 'x'.repeat(2_000) } }]))
  for (let i = 0; i < 5; i++) await post('traces', traces(`t${i}`, [{ id: 'a' }]))
  await expect.poll(() => taken.length).toBe(5)
  await expect.poll(() => metric('otelcol_exporter_queue_size')).toBe(1)
  await stop()
})

test.each([
  ['sending_queue: {queue_size: 2}', 'sending queue is full'],
  ['sending_queue: {queue_size: 2, sizer: items}', 'sending queue is full'],
])('with %s a third span is refused', async (queue, reason) => {
  const { url } = await backend()
  const { post, metric, stop } = await start(url, `exporters: {otlp_http: {${queue}}}`)
  for (let i = 0; i < 2; i++) expect((await post('traces', traces(`t${i}`, [{ id: 'a' }]))).status).toBe(200)
  const third = await post('traces', traces('t2', [{ id: 'a' }]))
  expect([third.status, ((await third.json()) as { message: string }).message]).toEqual([503, reason])
  expect(await metric('otelcol_exporter_enqueue_failed_spans_total')).toBe(1)
  await stop()
})

test('past max_size_mib requests are refused, and what was acknowledged is kept', async () => {
  const { url, state } = await backend()
  const { post, metric, stop } = await start(url, 'extensions: {file_storage: {max_size_mib: 1}}')
  const large = (i: number) => traces(`t${i}`, [{ id: 'a', attributes: { prompt: 'x'.repeat(300_000) } }])
  const statuses: number[] = []
  for (let i = 0; i < 5; i++) statuses.push((await post('traces', large(i))).status)
  expect(statuses).toEqual([200, 200, 200, 503, 503])
  expect(await metric('otelcol_exporter_enqueue_failed_spans_total')).toBe(2)
  expect(await metric('leyden_file_storage_bytes')).toBeGreaterThan(900_000)
  state.status = 200
  await expect.poll(() => state.taken).toBe(3)
  await expect.poll(async () => (await post('traces', large(5))).status).toBe(200)
  await stop()
})

test('a queue that nobody asks for any more is pointed out', async () => {
  const { url } = await backend()
  const { post, stop } = await start(url)
  await post('traces', traces('t0', [{ id: 'a' }]))
  await stop()
  const context = testContext()
  const storage = configure(fileStorage, { directory: join(folder, 'queue') }, context)
  await storage.start!()
  storage.ready!()
  const queue = join(folder, 'queue', 'exporter_otlp_http_traces')
  await expect
    .poll(() => context.lines)
    .toEqual([{ text: 'warn A queue on disk belongs to no component any more; what is in it waits', fields: { queue } }])
  await storage.shutdown!()
})

test('the folder is of one process, and made unless that is not wanted', async () => {
  const directory = join(folder, 'deep', 'queue')
  await expect(configure(fileStorage, { directory, create_directory: false }).start!()).rejects.toThrow(
    /^extensions::test::directory: ENOENT/,
  )
  await expect(configure(fileStorage, { directory: '/proc/leyden/queue' }).start!()).rejects.toThrow(
    /^extensions::test::directory: E[A-Z]+: .*, mkdir '/,
  )
  const first = configure(fileStorage, { directory })
  await first.start!()
  const second = configure(fileStorage, { directory, timeout: '10ms' }, testContext({ id: 'file_storage/2' }))
  await expect(second.start!()).rejects.toThrow(/^extensions::file_storage\/2::directory: .* is in use by another process/)
  await first.shutdown!()
  await second.start!()
  await second.shutdown!()
  expect(await readdir(directory)).toEqual([])
})

test('an exporter that names no file_storage is told what is missing', async () => {
  const config = (extensions: string, listed: string) => `
receivers: {otlp: }
exporters: {otlp_http: {endpoint: "http://a", sending_queue: {storage: file_storage}}}
extensions: {${extensions}}
service: {extensions: [${listed}], pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}}`
  const complaints = async (extensions: string, listed: string) =>
    (await loadConfig([`yaml:${config(extensions, listed)}`], { registry, env: {}, cwd: folder })).problems.map(({ message }) => message)
  expect(await complaints('health_check: ', 'health_check')).toEqual(['references extension "file_storage" which is not configured'])
  expect(await complaints('file_storage: ', '')).toEqual(['references extension "file_storage" which service::extensions does not list'])
  expect(problems(fileStorage, { max_size_mib: 0 })).toEqual(['file_storage::max_size_mib: must be a number, at least 1 (got 0)'])
})
