import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import { createServer } from 'node:net'
import { gzipSync } from 'node:zlib'

import * as grpc from '@grpc/grpc-js'
import { SpanStatusCode } from '@opentelemetry/api'
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { OTLPTraceExporter as HttpExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtoExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { tracing } from '@opentelemetry/sdk-node'
import { afterEach, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { readItem } from '../data/scan.ts'
import { detached, type SpanBatch } from '../data/span_batch.ts'
import { Refused, type Outputs, type Receiver } from '../pipeline/component.ts'
import { conforms, configure, problems, testContext, type TestContext } from '../test/conformance.ts'
import { sendGrpc, sendHttp } from '../test/otlp/client.ts'
import otlp from './otlp.ts'

conforms(otlp, { protocols: { grpc: null, http: null } })

const running: Receiver[] = []
afterEach(async () => {
  for (const receiver of running.splice(0)) await receiver.shutdown!()
})

interface Started {
  readonly receiver: Receiver
  readonly context: TestContext
  readonly batches: SpanBatch[]
  /** Requests by how they ended. */
  readonly outcomes: Record<string, number>
  /** host:port by protocol. */
  readonly grpc: string
  readonly http: string
}

async function start({ protocols = {}, next }: { protocols?: Record<string, object>; next?: Outputs } = {}): Promise<Started> {
  const outcomes: Record<string, number> = {}
  const context = testContext({ id: 'otlp', kind: 'receiver' })
  const { counter } = context
  context.counter = (name, labels) => {
    const counted = counter(name, labels)
    const outcome = labels?.outcome ?? ''
    return (n) => {
      counted(n)
      if (name === 'receiver_requests') outcomes[outcome] = (outcomes[outcome] ?? 0) + n
    }
  }
  const onFreePorts = { grpc: { endpoint: 'localhost:0', ...protocols.grpc }, http: { endpoint: 'localhost:0', ...protocols.http } }
  const receiver = configure(otlp, { protocols: onFreePorts }, context)
  running.push(receiver)
  const batches: SpanBatch[] = []
  const keep = async (items: readonly SpanBatch[]) => void batches.push(...items.map(detached))
  await receiver.start(next ?? { traces: keep, logs: keep })
  const endpoint = (server: string) => String(context.lines.find(({ text }) => text === `info Starting ${server} server`)!.fields!.endpoint)
  return { receiver, context, batches, outcomes, grpc: endpoint('GRPC'), http: endpoint('HTTP') }
}

const GZIP = { compression: 'gzip' as never }

const overGrpc = ({ grpc }: Started) => new GrpcExporter({ url: `http://${grpc}` })
const overGrpcPacked = ({ grpc }: Started) => new GrpcExporter({ url: `http://${grpc}`, ...GZIP })

test.each<[string, (started: Started) => tracing.SpanExporter, transport?: string]>([
  ['gRPC', overGrpc],
  ['gRPC and gzip', overGrpcPacked],
  ['gRPC on grpc-js', overGrpc, 'grpc-js'],
  ['gRPC and gzip on grpc-js', overGrpcPacked, 'grpc-js'],
  ['HTTP and JSON', ({ http }) => new HttpExporter({ url: `http://${http}/v1/traces` })],
  ['HTTP and JSON and gzip', ({ http }) => new HttpExporter({ url: `http://${http}/v1/traces`, ...GZIP })],
  ['HTTP and protobuf', ({ http }) => new ProtoExporter({ url: `http://${http}/v1/traces` })],
  ['HTTP and protobuf and gzip', ({ http }) => new ProtoExporter({ url: `http://${http}/v1/traces`, ...GZIP })],
])('the OpenTelemetry SDK sends spans over %s', async (_over, exporterFor, transport = 'auto') => {
  const started = await start({ protocols: { grpc: { transport } } })
  const provider = new tracing.BasicTracerProvider({ spanProcessors: [new tracing.SimpleSpanProcessor(exporterFor(started))] })
  const span = provider
    .getTracer('agent', '1.0')
    .startSpan('chat gpt-4o', { attributes: { 'gen_ai.operation.name': 'chat', tokens: [1, 2] } })
  span.addEvent('first token').setStatus({ code: SpanStatusCode.ERROR, message: 'cut off' }).end()
  await provider.shutdown()

  expect(readItem(started.batches[0]!, 0)).toMatchObject({
    trace_id: span.spanContext().traceId,
    span_id: span.spanContext().spanId,
    name: 'chat gpt-4o',
    attributes: { 'gen_ai.operation.name': 'chat', tokens: [1, 2] },
    events: [{ name: 'first token' }],
    status: 2,
    status_message: 'cut off',
    scope: { name: 'agent', version: '1.0' },
  })
  expect(started.context.counts).toMatchObject({ receiver_accepted_spans: 1, receiver_refused_spans: 0, receiver_requests: 1 })
})

const IDS = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' }
const traces = (...spans: object[]) => JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] })

const post = (endpoint: string, path: string, body: string | Buffer, headers: Record<string, string> = {}) =>
  fetch(`http://${endpoint}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })

test('a span with wrong ids is named in the answer, the rest is stored, and both are counted', async () => {
  const { http, batches, context } = await start()
  const answer = await post(http, '/v1/traces', traces(IDS, { ...IDS, spanId: '', name: 'lost' }))
  expect(await answer.json()).toEqual({
    partialSuccess: {
      rejectedSpans: '1',
      errorMessage: 'span 2 ("lost"): span_id must be 8 bytes (16 hex digits in JSON), not all zero',
    },
  })
  expect(batches[0]!.count).toBe(1)
  expect(context.counts).toMatchObject({ receiver_accepted_spans: 1, receiver_refused_spans: 1 })
})

test('a member of the wrong type is refused with its place, as a BadRequest that programs can read', async () => {
  const { http, context } = await start()
  const answer = await post(http, '/v1/traces', traces({ ...IDS, name: 7 }))
  const message = 'resourceSpans[0].scopeSpans[0].spans[0].name: must be a string (got 7)'
  const violation = { field: 'resourceSpans[0].scopeSpans[0].spans[0].name', description: message }
  expect([answer.status, await answer.json()]).toEqual([
    400,
    { code: 3, message, details: [{ '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: [violation] }] },
  ])
  expect(context.counts).toMatchObject({ receiver_accepted_spans: 0, receiver_refused_spans: 0, receiver_requests: 1 })
})

test('a body over the limit is refused, packed or not', async () => {
  const { http } = await start({ protocols: { http: { max_request_body_size: 1_000 } } })
  const large = traces({ ...IDS, name: 'x'.repeat(1_000) })
  expect((await post(http, '/v1/traces', large)).status).toBe(413)
  expect((await post(http, '/v1/traces', gzipSync(large), { 'content-encoding': 'gzip' })).status).toBe(413)
  expect((await post(http, '/v1/traces', traces(IDS))).status).toBe(200)
})

test.each(['own', 'grpc-js'])('a gRPC message that cannot be read is counted as a request that failed: %s', async (transport) => {
  const { grpc: endpoint, outcomes } = await start({ protocols: { grpc: { transport, max_recv_msg_size_mib: 1 } } })
  const session = http2.connect(`http://${endpoint}`)
  const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
  const send = (body: Buffer, coding: string) =>
    sendGrpc(session, { path, headers: { 'grpc-encoding': coding }, body, compressed: coding !== 'identity' })
  const good = fromJson('traces', JSON.parse(traces(IDS)))
  const answers = [
    await send(Buffer.from('nonsense'), 'gzip'),
    await send(good, 'snappy'),
    await send(Buffer.alloc(2 ** 21), 'identity'),
    await send(gzipSync(Buffer.alloc(2 ** 21)), 'gzip'),
    await send(Buffer.from('nonsense'), 'identity'),
    await send(good, 'identity'),
  ]
  expect(answers.map(({ grpc_code }) => grpc_code)).toEqual([13, 12, 8, 8, 3, 0])
  expect(outcomes).toEqual({ failure: 5, success: 1 })

  const half = session
    .request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
    .on('error', () => {})
  half.write(Buffer.from([0, 0, 0, 0, 9, 1]))
  await send(good, 'identity')
  half.close(http2.constants.NGHTTP2_CANCEL)
  await expect.poll(() => outcomes).toEqual({ failure: 6, success: 2 })
  session.destroy()
})

test('a body that cannot be read is counted as a request that failed', async () => {
  const { http: endpoint, outcomes } = await start({ protocols: { http: { max_request_body_size: 2 ** 20 } } })
  const port = Number(endpoint.split(':')[1])
  const headers = { 'content-type': 'application/x-protobuf' }
  const send = (body: Buffer, coding = 'identity') =>
    sendHttp(port, { method: 'POST', path: '/v1/traces', headers: { ...headers, 'content-encoding': coding }, body })
  const good = fromJson('traces', JSON.parse(traces(IDS)))
  const answers = [
    await send(Buffer.from('nonsense'), 'gzip'),
    await send(good, 'snappy'),
    await send(Buffer.alloc(2 ** 21)),
    await send(gzipSync(Buffer.alloc(2 ** 21)), 'gzip'),
    await send(Buffer.from('nonsense')),
    await send(good),
  ]
  expect(answers.map(({ status }) => status)).toEqual([400, 415, 413, 413, 400, 200])
  expect(outcomes).toEqual({ failure: 5, success: 1 })

  const half = { 'content-length': '9', ...headers }
  await sendHttp(port, { method: 'POST', path: '/v1/traces', headers: half, body: Buffer.from('x'), abort_after_bytes: 1 })
  await expect.poll(() => outcomes).toEqual({ failure: 6, success: 1 })
})

test('a fault behind the receiver is logged and leaves the data with the client; back-pressure only does the latter', async () => {
  const faults = [new TypeError('x is undefined'), new Refused('the queue is full', 2_500)]
  const { http, context } = await start({ next: { traces: () => Promise.reject(faults.shift()!) } })
  const answers = [await post(http, '/v1/traces', traces(IDS)), await post(http, '/v1/traces', traces(IDS))]
  expect(answers.map((answer) => [answer.status, answer.headers.get('retry-after')])).toEqual([
    [503, null],
    [503, '3'],
  ])
  expect(context.lines.map(({ text }) => text).filter((text) => text.startsWith('warn'))).toEqual([
    'warn The pipeline failed to take a request',
  ])
  expect(context.counts).toMatchObject({ receiver_accepted_spans: 0, receiver_refused_spans: 2 })
})

test('a signal that no pipeline takes is not offered', async () => {
  const { http, grpc } = await start({ next: { logs: async () => {} } })
  expect((await post(http, '/v1/traces', traces(IDS))).status).toBe(404)
  expect((await post(http, '/v1/logs', '{}')).status).toBe(200)
  const errors: Error[] = []
  const exporter = new GrpcExporter({ url: `http://${grpc}` })
  await new Promise<void>((resolve) => exporter.export([], ({ error }) => resolve(void (error && errors.push(error)))))
  await exporter.shutdown()
  expect(errors[0]?.message).toContain('UNIMPLEMENTED')
})

test.each([
  ['grpc', 'own'],
  ['grpc', 'grpc-js'],
  ['http', 'own'],
])('a request in flight is answered before the receiver has shut down: %s, %s', async (protocol, transport) => {
  const arrived = deferred()
  const stored = deferred()
  const started = await start({
    protocols: { grpc: { transport } },
    next: {
      traces: () => {
        arrived.resolve()
        return stored.promise
      },
    },
  })
  const client = protocol === 'grpc' ? grpcClient(started.grpc) : httpClient(started.http)
  const answer = client.send()
  await arrived.promise
  const order: string[] = []
  const down = started.receiver.shutdown!().then(() => order.push('down'))
  order.push('stored')
  stored.resolve()
  expect(await answer).toBe('success')
  await down // although the client keeps its connection
  expect(order).toEqual(['stored', 'down'])
  await expect(client.send()).rejects.toThrow()
  client.close()
})

interface Client {
  send(): Promise<string>
  close(): void
}

function httpClient(endpoint: string): Client {
  const agent = new http.Agent({ keepAlive: true })
  const [host, port] = endpoint.split(':')
  const options = { host, port, agent, method: 'POST', path: '/v1/traces', headers: { 'content-type': 'application/json' } }
  async function send(): Promise<string> {
    const request = http.request(options).end(traces(IDS))
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    response.resume()
    return response.statusCode === 200 ? 'success' : String(response.statusCode)
  }
  return { send, close: () => agent.destroy() }
}

function grpcClient(endpoint: string): Client {
  const client = new grpc.Client(endpoint, grpc.credentials.createInsecure())
  const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
  const asIs = (bytes: Buffer) => bytes
  const body = fromJson('traces', JSON.parse(traces(IDS)))
  const send = () =>
    new Promise<string>((resolve, reject) => {
      client.makeUnaryRequest(path, asIs, asIs, body, (error) => (error ? reject(error) : resolve('success')))
    })
  return { send, close: () => client.close() }
}

function deferred() {
  let resolve = () => {}
  const promise = new Promise<void>((done) => (resolve = done))
  return { promise, resolve }
}

test.each([
  ['grpc', { transport: 'own' }],
  ['grpc', { transport: 'grpc-js' }],
  ['http', {}],
])('a port in use by another program is told with the option to change: %s, %j', async (protocol, options) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const message = `listen tcp 127.0.0.1:${port}: bind: address already in use; set receivers::otlp::protocols::${protocol}::endpoint to another address`
  await expect(start({ protocols: { [protocol]: { endpoint: `localhost:${port}`, ...options } } })).rejects.toThrow(message)
  other.close()
})

test.each([
  [{ protocols: null }, 'must specify at least one protocol when using the OTLP receiver'],
  [{ protocols: { grpc: { max_recv_msg_size_mib: -1 } } }, 'invalid max_recv_msg_size_mib value, must be between 1 and 2047: -1'],
  [{ protocols: { http: { endpoint: 'localhost' } } }, 'must be host:port'],
  [{ protocols: { http: { traces_url_path: '/x', logs_url_path: '/x' } } }, 'must differ from traces_url_path'],
])('the options %j are refused', (options, message) => {
  expect(problems(otlp, options)).toEqual([expect.stringContaining(message)])
})
