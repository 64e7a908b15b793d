import { mkdtemp, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { Server, ServerCredentials, type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js'
import { expect, test } from 'vitest'

import { itemName, parentSpanId, resource, scan, spanId } from '../data/scan.ts'
import { traced } from './flow.ts'
import { close, listen } from './listen.ts'
import { readConfig, type Problem } from './schema.ts'
import { telemetryFields } from './service.ts'
import { createTelemetry, type Telemetry } from './telemetry.ts'

const ANY_PORT = { readers: [{ pull: { exporter: { prometheus: { port: 0 } } } }] }

async function start(options: object): Promise<Telemetry> {
  const problems: Problem[] = []
  const config = readConfig(telemetryFields, options, [], problems)
  expect(problems).toEqual([])
  return createTelemetry(config, '1.2.3')
}

async function scrape({ metrics }: Telemetry, path = '/metrics'): Promise<{ status: number; text: string }> {
  const { host, port } = metrics.addresses[0]!
  const answer = await fetch(`http://${host}:${port}${path}`)
  return { status: answer.status, text: await answer.text() }
}

/** Lines that a telemetry of these log options writes. */
async function logged(logs: object, write: (telemetry: Telemetry) => void): Promise<string[]> {
  const path = join(await mkdtemp(join(tmpdir(), 'leyden-')), 'log')
  const telemetry = await start({ metrics: { level: 'none' }, logs: { ...logs, output_paths: [path] } })
  write(telemetry)
  await telemetry.shutdown()
  return (await readFile(path, 'utf8')).split('\n').slice(0, -1)
}

test('counters and gauges are served in Prometheus format under the names of the Collector', async () => {
  const telemetry = await start({ metrics: ANY_PORT })
  const receiver = telemetry.contextFor('receiver', 'otlp')
  receiver.count('receiver_accepted_spans', 2, { transport: 'grpc' })
  receiver.count('receiver_accepted_spans', 3, { transport: 'grpc' })
  receiver.count('receiver_accepted_spans', 1, { transport: 'http' })
  telemetry
    .contextFor('processor', 'policy_calls', { id: 'rollouts/a', signal: 'rollouts' })
    .count('leyden_rejects', 1, { reason: 'truncated' })
  telemetry.contextFor('exporter', 'file').gauge('exporter_queue_size', () => 7)
  const { text } = await scrape(telemetry)
  await telemetry.shutdown()
  expect(text).toContain('\notelcol_receiver_accepted_spans_total{receiver="otlp",transport="grpc"} 5\n')
  expect(text).toContain('\notelcol_receiver_accepted_spans_total{receiver="otlp",transport="http"} 1\n')
  expect(text).toContain('\nleyden_rejects_total{processor="policy_calls",pipeline="rollouts/a",reason="truncated"} 1\n')
  expect(text).toContain('\notelcol_exporter_queue_size{exporter="file"} 7\n')
  expect(text).toMatch(/\notelcol_process_memory_rss \d+\n/)
  expect(text).toMatch(/target_info\{.*service_name="leyden".*\} 1/)
})

test('only /metrics is served', async () => {
  const telemetry = await start({ metrics: ANY_PORT })
  const answers = [await scrape(telemetry, '/metrics?x=1'), await scrape(telemetry, '/')]
  await telemetry.shutdown()
  expect(answers.map(({ status }) => status)).toEqual([200, 404])
})

test('a gauge of a component that was replaced shows the new one, and nothing once it has stopped', async () => {
  const telemetry = await start({ metrics: ANY_PORT })
  for (const value of [1, 2]) telemetry.contextFor('exporter', 'file').gauge('exporter_queue_size', () => value)
  expect((await scrape(telemetry)).text).toContain('otelcol_exporter_queue_size{exporter="file"} 2\n')
  telemetry.forget()
  expect((await scrape(telemetry)).text).toContain('otelcol_exporter_queue_size{exporter="file"} 0\n')
  await telemetry.shutdown()
})

test('a port in use is an error that names the address and the option', async () => {
  const taken = createServer()
  const { port } = await listen(taken, { host: '127.0.0.1', port: 0 }, '')
  await expect(start({ metrics: { readers: [{ pull: { exporter: { prometheus: { port } } } }] } })).rejects.toThrow(
    `listen tcp 127.0.0.1:${port}: bind: address already in use; set service::telemetry::metrics::readers::0::pull::exporter::prometheus::port to another address`,
  )
  await close(taken)
})

test('level none serves no metrics', async () => {
  const telemetry = await start({ metrics: { level: 'none' } })
  telemetry.contextFor('receiver', 'otlp').count('receiver_accepted_spans')
  expect(telemetry.metrics.addresses).toEqual([])
  await telemetry.shutdown()
})

test('log lines for people are tab separated and name their component', async () => {
  const lines = await logged({}, ({ contextFor }) => {
    contextFor('processor', 'air/x', { id: 'rollouts', signal: 'rollouts' }).log.warn('odd tool', {
      error: new Error('no result'),
      size: 1n,
    })
  })
  const [time, level, message, fields] = lines[0]!.split('\t')
  expect(time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  expect([level, message]).toEqual(['warn', 'odd tool'])
  expect(JSON.parse(fields!)).toEqual({
    'otelcol.component.id': 'air/x',
    'otelcol.component.kind': 'processor',
    'otelcol.pipeline.id': 'rollouts',
    'otelcol.signal': 'rollouts',
    error: 'no result',
    size: '1',
  })
})

test('log lines for machines are JSON and carry the resource', async () => {
  const [line] = await logged({ encoding: 'json' }, ({ log }) => log.info('hello'))
  expect(JSON.parse(line!)).toEqual({
    level: 'info',
    ts: expect.any(String),
    msg: 'hello',
    resource: { 'service.name': 'leyden', 'service.version': '1.2.3', 'service.instance.id': expect.any(String) },
  })
})

test('lines below the level are not written', async () => {
  const lines = await logged({ level: 'warn' }, ({ log }) => {
    log.debug('a')
    log.info('b')
    log.warn('c')
    log.error('d')
  })
  expect(lines.map((line) => line.split('\t')[2])).toEqual(['c', 'd'])
})

test('a flood of the same warning is sampled: the first ten, then every hundredth', async () => {
  const lines = await logged({}, ({ log }) => {
    for (let i = 0; i < 250; i++) log.warn('away')
    log.warn('another')
    for (let i = 0; i < 50; i++) log.info('told')
  })
  const count = (text: string) => lines.filter((line) => line.includes(text)).length
  expect([count('away'), count('another'), count('told')]).toEqual([12, 1, 50])
})

test('a log file that cannot be written costs the lines, not the run', async () => {
  const telemetry = await start({ metrics: { level: 'none' }, logs: { output_paths: ['/no/such/folder/log'] } })
  telemetry.log.info('hello')
  await telemetry.shutdown()
})

test('a resource attribute is added, replaced or taken away', async () => {
  const path = join(await mkdtemp(join(tmpdir(), 'leyden-')), 'log')
  const telemetry = await start({
    metrics: { level: 'none' },
    logs: { encoding: 'json', output_paths: [path] },
    resource: { 'service.name': 'other', 'service.instance.id': null, region: 'eu' },
  })
  telemetry.log.info('hello')
  await telemetry.shutdown()
  expect(JSON.parse(await readFile(path, 'utf8')).resource).toEqual({ 'service.name': 'other', 'service.version': '1.2.3', region: 'eu' })
})

test('components see which extensions run, and what keeps others from working', async () => {
  const telemetry = await start({ metrics: { level: 'none' } })
  telemetry.extensions.set('clickhouse_storage', { api: 'storage' })
  const connector = telemetry.contextFor('connector', 'rollouts')
  expect(connector.extension('clickhouse_storage')).toBe('storage')
  expect(() => connector.extension('file_storage')).toThrow(
    'needs the extension "file_storage": configure it, and list it in service::extensions',
  )

  const health = telemetry.contextFor('extension', 'health_check')
  connector.health('storage is away')
  expect(health.problems()).toEqual([{ id: 'rollouts', kind: 'connector', problem: 'storage is away' }])
  connector.health(null)
  expect(health.problems()).toEqual([])
  await telemetry.shutdown()
})

test('spans about requests go where service::telemetry::traces says, with the headers it says', async () => {
  const requests: { body: Buffer; key: unknown }[] = []
  const server = new Server()
  const asItIs = (bytes: Buffer) => bytes
  server.addService(
    {
      Export: {
        path: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
        requestStream: false,
        responseStream: false,
        requestSerialize: asItIs,
        requestDeserialize: asItIs,
        responseSerialize: asItIs,
        responseDeserialize: asItIs,
      },
    },
    {
      Export(call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) {
        requests.push({ body: call.request, key: call.metadata.get('x-key')[0] })
        answer(null, Buffer.alloc(0))
      },
    },
  )
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound))),
  )

  const otlp = { endpoint: `http://127.0.0.1:${port}`, headers: { 'x-key': 'k' } }
  const telemetry = await start({ metrics: { level: 'none' }, traces: { processors: [{ batch: { exporter: { otlp } } }] } })
  const exporter = traced('exporter/file/traces', () => Promise.reject(new Error('disk full')))
  await expect(traced('receiver/otlp/traces', exporter)([])).rejects.toThrow('disk full')
  await telemetry.shutdown()
  server.forceShutdown()

  expect(requests.map(({ key }) => key)).toEqual(['k'])
  const { batch } = scan('traces', requests[0]!.body)
  expect([itemName(batch, 0), itemName(batch, 1)]).toEqual(['exporter/file/traces', 'receiver/otlp/traces'])
  expect(parentSpanId(batch, 0)).toBe(spanId(batch, 1))
  expect(resource(batch, 0).attributes).toMatchObject({ 'service.name': 'leyden', 'service.version': '1.2.3' })
})
