// What clients get from a unary gRPC server, on our framing and on grpc-js alike.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import * as http2 from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'

import * as grpc from '@grpc/grpc-js'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { tracing } from '@opentelemetry/sdk-node'
import { describe, expect, onTestFinished, test, vi } from 'vitest'

import { ECHO, serve as serveOn } from '../../test/grpc.ts'
import { data, prefixed, rawClient, request, type RawClient } from '../../test/raw_h2.ts'
import type { GrpcCall } from './grpc.ts'
import { createGrpcJsServer } from './grpc_js.ts'
import { createGrpcServer } from './server.ts'

const MB = 1 << 20
const asIs = (bytes: Buffer) => bytes
const pem = (name: string) => readFileSync(new URL(`../../test/fixtures/tls/${name}`, import.meta.url))

function client(port: number, options: grpc.ClientOptions = {}, credentials = grpc.credentials.createInsecure()): grpc.Client {
  const made = new grpc.Client(`localhost:${port}`, credentials, { 'grpc.max_receive_message_length': -1, ...options })
  onTestFinished(() => made.close())
  return made
}

function call(
  on: grpc.Client,
  message: Buffer,
  { path = ECHO, metadata = {}, ...options }: CallOptions = {},
): Promise<Buffer> & { cancel(): void } {
  let running: grpc.ClientUnaryCall
  const answer = new Promise<Buffer>((resolve, reject) => {
    const sent = grpc.Metadata.fromHttp2Headers(metadata)
    running = on.makeUnaryRequest(path, asIs, asIs, message, sent, options, (error, got) => (error ? reject(error) : resolve(got!)))
  })
  return Object.assign(answer, { cancel: () => running.cancel() })
}

interface CallOptions extends grpc.CallOptions {
  path?: string
  metadata?: Record<string, string>
}

/** A call as node:http2 makes it, with any headers and body. */
async function rawCall(port: number, headers: http2.OutgoingHttpHeaders, ...body: Buffer[]) {
  const session = http2.connect(`http://localhost:${port}`)
  onTestFinished(() => session.destroy())
  const stream = session.request({ ':method': 'POST', ':path': ECHO, 'content-type': 'application/grpc', te: 'trailers', ...headers })
  for (const piece of body) stream.write(piece)
  stream.end()
  const received: Record<string, unknown> = {}
  stream.on('response', (got) => Object.assign(received, got)).on('trailers', (got) => Object.assign(received, got))
  const pieces: Buffer[] = []
  stream.on('data', (piece: Buffer) => pieces.push(piece))
  await once(stream, 'close')
  return { ...received, data: Buffer.concat(pieces), status: Number(received['grpc-status']) } as Record<string, unknown> & {
    data: Buffer
    status: number
  }
}

describe.each([
  ['our framing', createGrpcServer],
  ['grpc-js', createGrpcJsServer],
])('on %s', (_transport, create) => {
  const serve = (options: Parameters<typeof serveOn>[0] = {}) => serveOn(options, create)
  const ours = create === createGrpcServer

  test('messages of any size come and go', async () => {
    const { port } = await serve()
    const on = client(port)
    for (const size of [0, 1, 16_379, 16_384, 65_536, 5 * MB]) {
      const message = Buffer.alloc(size, 'leyden')
      expect((await call(on, message)).equals(message)).toBe(true)
    }
  })

  test('many calls at once on one connection are answered, each with its own', async () => {
    const { port, stats } = await serve({ method: async (message) => (await sleep(5), message) })
    const on = client(port)
    const messages = Array.from({ length: 300 }, (_, i) => Buffer.alloc(1 + ((i * 997) % 20_000), i))
    const answers = await Promise.all(messages.map((message) => call(on, message)))
    expect(answers.every((answer, i) => answer.equals(messages[i]!))).toBe(true)
    expect(stats().calls).toBe(0)
  })

  test('a message stays as it was until its method has settled', async () => {
    const kept: Buffer[] = []
    let release = () => {}
    const full = new Promise<void>((resolve) => (release = resolve))
    const { port } = await serve({
      async method(message) {
        if (kept.push(message) === 50) release()
        await full
        return Buffer.from([message[0]!, message.at(-1)!])
      },
    })
    const on = client(port)
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => call(on, Buffer.alloc(10_000, i))))
    expect(answers).toEqual(Array.from({ length: 50 }, (_, i) => Buffer.from([i, i])))
  })

  test('the method sees metadata and deadline', async () => {
    let seen: GrpcCall | undefined
    const { port } = await serve({ method: async (message, call) => ((seen = call), message) })
    const before = performance.now()
    await call(client(port), Buffer.from('x'), { metadata: { authorization: 'Bearer abc', 'x-many': 'a' }, deadline: Date.now() + 5_000 })
    expect(seen!.metadata('authorization')).toBe('Bearer abc')
    expect(seen!.metadata('x-none')).toBeUndefined()
    expect(seen!.deadline! - before).toBeGreaterThan(4_000)
    expect(seen!.deadline! - before).toBeLessThan(6_000)
    await call(client(port), Buffer.from('x'))
    expect(seen!.deadline).toBeUndefined()
  })

  test('an error comes with its code, its text and its details', async () => {
    const details = Buffer.from([8, 14, 18, 4, 98, 117, 115, 121])
    const { port } = await serve({
      method: () => Promise.reject(new Error()),
      errorOf: () => ({ code: 14, message: 'busy: 100% – später\n', details }),
    })
    const error = await call(client(port), Buffer.from('x')).catch((e: grpc.ServiceError) => e)
    expect(error).toMatchObject({ code: 14, details: ours ? 'busy: 100% – später\n' : expect.any(String) })
    expect((error as grpc.ServiceError).metadata.get('grpc-status-details-bin')).toEqual([details])
  })

  test('a method that throws at once is an error like any other', async () => {
    const { port } = await serve({
      method: () => {
        throw new Error('at once')
      },
    })
    await expect(call(client(port), Buffer.from('x'))).rejects.toMatchObject({ code: 2, details: 'at once' })
  })

  test.each([
    ['at once', (known: boolean) => (known ? undefined : raise('no token'))],
    ['later', async (known: boolean) => (await sleep(20), known || raise('no token'))],
  ])('who calls is asked, and refused %s, before the method runs', async (_when, answer) => {
    let runs = 0
    let untaken = 0
    const { port, stats } = await serve({
      method: async (message) => (runs++, message),
      authenticate: (call) => answer(call.metadata('authorization') === 'Bearer abc') as Promise<void> | undefined,
      untaken: () => void untaken++,
    })
    const on = client(port)
    await expect(call(on, Buffer.alloc(500_000))).rejects.toMatchObject({ code: 2, details: 'no token' })
    expect(runs).toBe(0)
    await call(on, Buffer.alloc(99), { metadata: { authorization: 'Bearer abc' } })
    expect(stats().bytesInFlight ?? 0).toBe(0)
    expect(untaken).toBe(0)
  })

  const raise = (message: string): never => {
    throw new Error(message)
  }

  test('a path or method that nobody serves is UNIMPLEMENTED', async () => {
    const { port } = await serve()
    await expect(call(client(port), Buffer.from('x'), { path: '/test.Echo/Other' })).rejects.toMatchObject({
      code: grpc.status.UNIMPLEMENTED,
    })
    if (ours) expect(await rawCall(port, { ':method': 'PUT' }, prefixed('x'))).toMatchObject({ status: grpc.status.UNIMPLEMENTED })
  })

  test('another content type is 415', async () => {
    const { port } = await serve()
    expect(await rawCall(port, { 'content-type': 'application/json' }, Buffer.from('{}'))).toMatchObject({ ':status': 415 })
    expect(await rawCall(port, { 'content-type': 'application/grpc+proto' }, prefixed('x'))).toMatchObject({ status: 0 })
  })

  test('a message over the limit is RESOURCE_EXHAUSTED, as it comes and as it unpacks', async () => {
    const { port } = await serve({ maxMessageBytes: MB })
    const exhausted = { code: grpc.status.RESOURCE_EXHAUSTED }
    await call(client(port), Buffer.alloc(MB))
    await expect(call(client(port), Buffer.alloc(MB + 1))).rejects.toMatchObject(exhausted)
    await call(client(port, GZIP), Buffer.alloc(MB))
    await expect(call(client(port, GZIP), Buffer.alloc(MB + 1))).rejects.toMatchObject(exhausted)
  })

  const GZIP = { 'grpc.default_compression_algorithm': grpc.compressionAlgorithms.gzip }
  test('gzip is unpacked, many at once', async () => {
    const { port, stats } = await serve()
    const on = client(port, GZIP)
    const messages = Array.from({ length: 40 }, (_, i) => Buffer.from(`${i} `.repeat(1 + i * 500)))
    const answers = await Promise.all(messages.map((message) => call(on, message)))
    expect(answers.every((answer, i) => answer.equals(messages[i]!))).toBe(true)
    expect(stats().bytesInFlight ?? 0).toBe(0)
  })

  test.each<[string, Buffer[], Record<string, string>, number]>([
    ['gzip that is none', [prefixed('nonsense', 1)], { 'grpc-encoding': 'gzip' }, grpc.status.INTERNAL],
    ['gzip cut short', [prefixed(gzipSync('hello, hello').subarray(0, 20), 1)], { 'grpc-encoding': 'gzip' }, grpc.status.INTERNAL],
    ['an unknown encoding', [prefixed('x', 1)], { 'grpc-encoding': 'x-snail' }, grpc.status.UNIMPLEMENTED],
    ['an unknown encoding that is not used', [prefixed('x', 0)], { 'grpc-encoding': 'x-snail' }, grpc.status.OK],
    ['no message', [], {}, grpc.status.UNIMPLEMENTED],
    ['two messages', [prefixed('x'), prefixed('y')], {}, grpc.status.UNIMPLEMENTED],
    ['a timeout that is none', [prefixed('x')], { 'grpc-timeout': 'soon' }, grpc.status.INTERNAL],
    ['a timeout that has passed', [prefixed('x')], { 'grpc-timeout': '0n' }, grpc.status.DEADLINE_EXCEEDED],
  ])('%s', async (_what, body, headers, status) => {
    const { port } = await serve({ method: async (message, { deadline }) => (deadline && (await sleep(400)), message) })
    expect(await rawCall(port, headers, ...body)).toMatchObject({ status })
  })

  test('a deadline ends a call, and its method is told', async () => {
    let seen: GrpcCall | undefined
    const { port } = await serve({ method: async (message, call) => ((seen = call), await sleep(600), message) })
    const error = await call(client(port), Buffer.from('x'), { deadline: Date.now() + 100 }).catch((e: grpc.ServiceError) => e)
    expect(error).toMatchObject({ code: grpc.status.DEADLINE_EXCEEDED })
    await expect.poll(() => seen!.cancelled).toBe(true)
  })

  test('cancelling ends a call, and its method is told', async () => {
    let seen: GrpcCall | undefined
    const { port, stats } = await serve({ method: async (message, call) => ((seen = call), await sleep(200), message) })
    const running = call(client(port), Buffer.from('x'))
    await expect.poll(() => seen).toBeDefined()
    expect(seen!.cancelled).toBe(false)
    running.cancel()
    await expect(running).rejects.toMatchObject({ code: grpc.status.CANCELLED })
    await expect.poll(() => seen!.cancelled).toBe(true)
    await expect.poll(() => stats().calls).toBe(0)
  })

  test('a client that is gone takes nobody along', async () => {
    let seen: GrpcCall | undefined
    const { port, stats } = await serve({ method: async (message, call) => ((seen = call), await sleep(100), message) })
    const gone = await rawClient(port)
    gone.send(request(1), data(1, prefixed('x')))
    await expect.poll(() => seen).toBeDefined()
    gone.socket.destroy()
    await expect.poll(() => seen!.cancelled).toBe(true)
    await expect.poll(() => stats().calls).toBe(0)
    await call(client(port), Buffer.from('x'))
  })

  test('more connections than allowed are closed and counted, and whoever comes when one has gone is served', async () => {
    const { port, limited } = await serve({ maxConnections: 2 })
    const served = async (id: number, { send, answer }: RawClient) => {
      send(request(id), data(id, prefixed('x')))
      expect((await answer(id)).fields['grpc-status']).toBe('0')
    }
    const [stays, goes] = [await rawClient(port), await rawClient(port)]
    for (const one of [stays, goes]) await served(1, one)
    const tooMany = await rawClient(port)
    await tooMany.ended
    expect(limited).toEqual({ connections: 1 })
    await served(3, stays)
    goes.socket.destroy()
    await vi.waitFor(async () => served(1, await rawClient(port)))
  })

  test('closing answers the calls in flight, and takes no more', async () => {
    const server = await serve({ method: async (message) => (await sleep(300), message) })
    const on = client(server.port)
    const running = [call(on, Buffer.from('a')), call(on, Buffer.from('b'))]
    await expect.poll(() => server.stats().calls).toBe(2)
    const closing = server.close(5_000)
    expect(await Promise.all(running)).toEqual([Buffer.from('a'), Buffer.from('b')])
    await closing
    await expect(call(client(server.port), Buffer.from('c'))).rejects.toMatchObject({ code: grpc.status.UNAVAILABLE })
    await server.close(0)
  })

  test('closing cuts off what outlasts the grace', async () => {
    let release = () => {}
    const { port, close, stats } = await serve({ method: (message) => new Promise((resolve) => (release = () => resolve(message))) })
    const running = call(client(port), Buffer.from('a'))
    running.catch(() => {})
    await expect.poll(() => stats().calls).toBe(1)
    await close(50)
    await expect(running).rejects.toMatchObject({ code: expect.any(Number) })
    release()
  })

  test('a port that is taken is EADDRINUSE', async () => {
    const { port } = await serve()
    await expect(serve({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })

  test('TLS, with and without a certificate of the client', async () => {
    const files = { key: pem('server.key'), cert: pem('server.pem') }
    const secured = await serve({ tls: { options: files, guard() {} } })
    const message = Buffer.alloc(300_000, 'secret')
    const secure = client(secured.port, {}, grpc.credentials.createSsl(pem('ca.pem')))
    expect(message.equals(await call(secure, message))).toBe(true)

    const mutual = await serve({
      tls: { options: { ...files, ca: pem('ca.pem'), requestCert: true, rejectUnauthorized: true }, guard() {} },
    })
    const known = grpc.credentials.createSsl(pem('ca.pem'), pem('client.key'), pem('client.pem'))
    expect(message.equals(await call(client(mutual.port, {}, known), message))).toBe(true)
    const unknown = client(mutual.port, {}, grpc.credentials.createSsl(pem('ca.pem')))
    await expect(call(unknown, message)).rejects.toMatchObject({ code: grpc.status.UNAVAILABLE })
    await expect(call(client(secured.port), message)).rejects.toMatchObject({ code: grpc.status.UNAVAILABLE })
  })

  test.each(['none', 'gzip'])("OpenTelemetry's exporter sends spans, compression %s", async (compression) => {
    const received: Buffer[] = []
    const { port } = await serve({
      methods: new Map([
        [
          '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
          async (message) => (received.push(Buffer.from(message)), Buffer.alloc(0)),
        ],
      ]),
    })
    const exporter = new OTLPTraceExporter({ url: `http://localhost:${port}`, compression: compression as never })
    const provider = new tracing.BasicTracerProvider({ spanProcessors: [new tracing.SimpleSpanProcessor(exporter)] })
    for (const name of ['one', 'two', 'three']) provider.getTracer('agent').startSpan(`chat ${name}`).end()
    await provider.shutdown()
    expect(received.map((message) => /chat (one|two|three)/.exec(message.toString('latin1'))![0]).sort()).toEqual([
      'chat one',
      'chat three',
      'chat two',
    ])
  })
})

test('an answer to an unknown encoding names those that are known', async () => {
  const { port } = await serveOn()
  expect(await rawCall(port, { 'grpc-encoding': 'x-snail' }, prefixed('x', 1))).toMatchObject({ 'grpc-accept-encoding': 'identity,gzip' })
})

test.each([
  ['a compressed message without an encoding', prefixed('x', 1), {}],
  ['a flag that is none', prefixed('x', 2), {}],
  ['a message cut short', prefixed('hello').subarray(0, 8), {}],
  ['a prefix cut short', prefixed('hello').subarray(0, 3), {}],
])('%s is INTERNAL', async (_what, body, headers) => {
  const { port } = await serveOn()
  expect(await rawCall(port, headers, body)).toMatchObject({ status: grpc.status.INTERNAL })
})

test('gzip of several members, and gzip that lies about its size, cost no more memory than they may', async () => {
  const { port, stats, limited } = await serveOn({
    maxMessageBytes: 100_000,
    method: async (message) => Buffer.from(String(message.length)),
  })
  const gzip = { 'grpc-encoding': 'gzip' }
  const members = Buffer.concat([gzipSync(Buffer.alloc(50_000)), gzipSync(Buffer.alloc(300))])
  expect((await rawCall(port, gzip, prefixed(members, 1))).data.toString('utf8', 5)).toBe('50300')
  const bomb = Buffer.concat([gzipSync(Buffer.alloc(10 * MB)), gzipSync(Buffer.alloc(1))])
  expect(await rawCall(port, gzip, prefixed(bomb, 1))).toMatchObject({ status: grpc.status.RESOURCE_EXHAUSTED })
  expect(stats().bytesInFlight).toBe(0)
  expect(limited).toEqual({ message_bytes: 1 })
})
