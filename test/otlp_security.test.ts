// The otlp receiver against clients that it should not trust: TLS, who may send, and what one client can make it hold.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import { gzipSync } from 'node:zlib'

import * as grpc from '@grpc/grpc-js'
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'

import basic_auth from '../extensions/basic_auth.ts'
import bearer_token_auth from '../extensions/bearer_token_auth.ts'
import type { Outputs, Receiver } from '../pipeline/component.ts'
import otlp from '../receivers/otlp.ts'
import { authority, signedBy, written, type Certificate } from './certificates.ts'
import { configure, problems, testContext } from './conformance.ts'
import * as exactly from './otlp/client.ts'

/** gRPC on the server of our own, and on grpc-js. */
const PROTOCOLS = ['grpc', 'grpc-js', 'http'] as const
type Protocol = (typeof PROTOCOLS)[number]

const folder = mkdtempSync(join(tmpdir(), 'leyden-tls-'))
afterAll(() => rmSync(folder, { recursive: true }))

const [ca, otherCa] = await Promise.all([authority(), authority('another authority')])
const [server, renewed, client, stranger] = await Promise.all([
  signedBy(ca),
  signedBy(otherCa, 'renewed'),
  signedBy(ca, 'client'),
  signedBy(otherCa, 'stranger'),
])
const files = written(folder, 'server', server)
const caFile = written(folder, 'ca', ca).cert_file

const running: Receiver[] = []
afterEach(async () => {
  for (const receiver of running.splice(0)) await receiver.shutdown!()
})

/** A receiver of one protocol. */
async function start(protocol: Protocol, options: object, { extensions = {}, admission = {}, next = keep } = {}) {
  const context = testContext({ id: 'otlp', kind: 'receiver', extensions })
  const [key, transport] = protocol === 'http' ? ['http'] : ['grpc', { transport: protocol === 'grpc' ? 'own' : protocol }]
  const receiver = configure(otlp, { protocols: { [key]: { endpoint: 'localhost:0', ...transport, ...options } }, admission }, context)
  running.push(receiver)
  await receiver.start(next)
  const line = context.lines.find(({ text }) => text === `info Starting ${key.toUpperCase()} server`)!
  return { context, port: Number(String(line.fields!.endpoint).split(':')[1]) }
}

const keep: Outputs = { traces: async () => {}, logs: async () => {} }
const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
const EMPTY = Buffer.alloc(0)

interface Caller {
  /** Speaks TLS, trusting this authority. */
  ca?: string
  /** With this certificate. */
  own?: Certificate
  authorization?: string
}

/** Sends an empty export: `ok`, or why not. */
const send = (protocol: Protocol, port: number, caller: Caller) => (protocol !== 'http' ? sendGrpc : sendHttp)(port, caller)

function sendGrpc(port: number, { ca, own, authorization }: Caller): Promise<string> {
  const credentials = ca
    ? grpc.credentials.createSsl(Buffer.from(ca), own ? Buffer.from(own.key) : null, own ? Buffer.from(own.cert) : null)
    : grpc.credentials.createInsecure()
  const caller = new grpc.Client(`localhost:${port}`, credentials)
  const metadata = new grpc.Metadata()
  if (authorization) metadata.set('authorization', authorization)
  const asIs = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    caller.makeUnaryRequest(EXPORT, asIs, asIs, EMPTY, metadata, { deadline: Date.now() + 5_000 }, (error) => {
      caller.close()
      resolve(error ? `${grpc.status[error.code]}: ${error.details}` : 'ok')
    })
  })
}

async function sendHttp(port: number, { ca, own, authorization }: Caller): Promise<string> {
  const headers = { 'content-type': 'application/x-protobuf', ...(authorization && { authorization }) }
  const options = { host: 'localhost', port, method: 'POST', path: '/v1/traces', headers, agent: false }
  const request = ca ? https.request({ ...options, ca, ...own }) : http.request(options)
  try {
    const [response] = (await once(request.end(), 'response')) as [http.IncomingMessage]
    const body = Buffer.concat(await response.toArray()).toString()
    return response.statusCode === 200 ? 'ok' : `${response.statusCode} ${response.headers['www-authenticate'] ?? ''}: ${body}`
  } catch (error) {
    return (error as Error).message
  }
}

/** The name in the certificate that a port shows. */
async function certificateOf(port: number): Promise<string> {
  const socket = tls.connect({ port, host: 'localhost', rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] })
  await once(socket, 'secureConnect')
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return String(subject.CN)
}

describe.each(PROTOCOLS)('over %s', (protocol) => {
  test('TLS is spoken, and nothing else', async () => {
    const { port } = await start(protocol, { tls: files })
    expect(await send(protocol, port, { ca: ca.cert })).toBe('ok')
    expect(await send(protocol, port, { ca: otherCa.cert })).not.toBe('ok')
    expect(await send(protocol, port, {})).not.toBe('ok')
  })

  test('a client that never finishes its handshake does not hold up the end', async () => {
    const { port } = await start(protocol, { tls: files })
    const socket = connect(port, 'localhost')
    await once(socket, 'connect')
    const closed = once(socket.resume(), 'close')
    expect(await send(protocol, port, { ca: ca.cert })).toBe('ok')
    await running.pop()!.shutdown!()
    await closed
  })

  test('a certificate may be written into the configuration', async () => {
    const { port } = await start(protocol, { tls: { cert_pem: server.cert, key_pem: server.key } })
    expect(await send(protocol, port, { ca: ca.cert })).toBe('ok')
  })

  test('mTLS lets only those in who show a certificate of the authority', async () => {
    const { port } = await start(protocol, { tls: { ...files, client_ca_file: caFile } })
    expect(await send(protocol, port, { ca: ca.cert, own: client })).toBe('ok')
    expect(await send(protocol, port, { ca: ca.cert })).not.toBe('ok')
    expect(await send(protocol, port, { ca: ca.cert, own: stranger })).not.toBe('ok')
  })

  test('a renewed certificate is shown without a restart, and a broken one is not', async () => {
    const mine = written(folder, `${protocol}-renewed`, server)
    const { port, context } = await start(protocol, { tls: { ...mine, reload_interval: '20ms' } })
    expect(await certificateOf(port)).toBe('localhost')
    written(folder, `${protocol}-renewed`, renewed)
    await vi.waitFor(async () => expect(await certificateOf(port)).toBe('renewed'), 5_000)
    writeFileSync(mine.cert_file, 'no certificate')
    await vi.waitFor(() => expect(context.lines.at(-1)?.text).toContain('the old ones stay in use'), 5_000)
    expect(await certificateOf(port)).toBe('renewed')
    expect(JSON.stringify(context.lines)).not.toContain('PRIVATE KEY')
  })

  test('a new authority for clients is obeyed without a restart', async () => {
    const client_ca_file = join(folder, `${protocol}-clients.crt`)
    writeFileSync(client_ca_file, otherCa.cert)
    const { port } = await start(protocol, { tls: { ...files, client_ca_file, client_ca_file_reload: true } })
    expect(await send(protocol, port, { ca: ca.cert, own: client })).not.toBe('ok')
    writeFileSync(client_ca_file, ca.cert)
    await vi.waitFor(async () => expect(await send(protocol, port, { ca: ca.cert, own: client })).toBe('ok'), 10_000)
    expect(await send(protocol, port, { ca: ca.cert, own: stranger })).not.toBe('ok')
  })

  test('versions and suites of TLS can be chosen', async () => {
    const cipher_suites = ['TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256']
    const [newest, one] = [
      await start(protocol, { tls: { ...files, min_version: '1.3' } }),
      await start(protocol, { tls: { ...files, max_version: '1.2', cipher_suites } }),
    ]
    const handshake = async (port: number, options: tls.ConnectionOptions) => {
      const socket = tls.connect({ port, host: 'localhost', ca: ca.cert, ALPNProtocols: ['h2', 'http/1.1'], ...options })
      await once(socket, 'secureConnect')
      const agreed = `${socket.getProtocol()} ${socket.getCipher().name}`
      socket.destroy()
      return agreed
    }
    expect(await handshake(newest.port, {})).toMatch(/^TLSv1.3/)
    await expect(handshake(newest.port, { maxVersion: 'TLSv1.2' })).rejects.toThrow()
    expect(await handshake(one.port, {})).toBe('TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305')
    await expect(handshake(one.port, { ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' })).rejects.toThrow()
  })

  test('a token opens, a wrong one and none do not, and each refusal is counted', async () => {
    const auth = { authenticator: 'bearer_token_auth' }
    const extensions = { bearer_token_auth: configure(bearer_token_auth, { token: 's3cret' }).api }
    const { port, context } = await start(protocol, { auth }, { extensions })
    expect(await send(protocol, port, { authorization: 'Bearer s3cret' })).toBe('ok')
    const answers = [await send(protocol, port, { authorization: 'Bearer other' }), await send(protocol, port, {})]
    for (const answer of answers) expect(answer).toMatch(protocol !== 'http' ? /^UNAUTHENTICATED: / : /^401 Bearer: /)
    expect(context.counts.receiver_unauthenticated_requests).toBe(2)
    expect(JSON.stringify([answers, context.lines])).not.toMatch(/s3cret|other/)
  })

  test('a password opens, a wrong one does not', async () => {
    const inline = 'ann:$2y$04$Yqqg/xXflbYezIUFm.In2ObhrEWxwbLWTT3wd4WD8oS5K0M37v08y'
    const extension = configure(basic_auth, { htpasswd: { inline } })
    await extension.start?.()
    const { port } = await start(protocol, { auth: { authenticator: 'basic_auth' } }, { extensions: { basic_auth: extension.api } })
    const basic = (password: string) => `Basic ${Buffer.from(`ann:${password}`).toString('base64')}`
    expect(await send(protocol, port, { authorization: basic('x') })).toBe('ok')
    expect(await send(protocol, port, { authorization: basic('y') })).toMatch(protocol !== 'http' ? /^UNAUTHENTICATED: / : /^401 Basic /)
  })
})

test('who may not send is told so before the body is read', async () => {
  const extensions = { bearer_token_auth: configure(bearer_token_auth, { token: 's3cret' }).api }
  const auth = { authenticator: 'bearer_token_auth' }
  const [overHttp, overGrpc] = [await start('http', { auth }, { extensions }), await start('grpc', { auth }, { extensions })]

  const socket = connect(overHttp.port, '127.0.0.1')
  socket.write('POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n')
  expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1.1 401 /)
  socket.destroy()

  const session = http2.connect(`http://127.0.0.1:${overGrpc.port}`)
  const call = session.request({ ':method': 'POST', ':path': EXPORT, 'content-type': 'application/grpc', te: 'trailers' })
  const [headers] = (await once(call, 'response')) as [http2.IncomingHttpHeaders]
  expect(headers['grpc-status']).toBe('16')
  session.destroy()
})

test.each([
  ['a file that is not there', { ...files, key_file: join(folder, 'none') }, 'tls: key_file cannot be read: ENOENT'],
  ['no certificate', { ...files, cert_file: files.key_file }, 'tls: cert_file must be a certificate in PEM format'],
  ['no key', { cert_file: files.cert_file, key_pem: 'x' }, 'tls: key_pem must be a private key in PEM format'],
  [
    'the key of another',
    { ...files, key_pem: undefined, ...written(folder, 'other', client), cert_file: files.cert_file },
    'tls: key_file is not the key of the certificate in cert_file',
  ],
  ['no authority', { ...files, client_ca_file: files.key_file }, 'tls: client_ca_file must be a certificate in PEM format'],
])('%s does not let the receiver start, and is named', async (_what, tls, message) => {
  for (const protocol of PROTOCOLS) await expect(start(protocol, { tls })).rejects.toThrow(message)
})

test('options of TLS that do not go together are refused', () => {
  const found = (tls: object) =>
    problems(otlp, { protocols: { grpc: { tls } } }).map((problem) => problem.replace('protocols::grpc::tls: ', ''))
  expect(found({})).toEqual(['needs a certificate: cert_file or cert_pem', 'needs the private key of the certificate: key_file or key_pem'])
  expect(found({ cert_file: 'a', cert_pem: 'a', key_file: 'b', key_pem: 'b' })).toEqual([
    'takes cert_file or cert_pem, not both',
    'takes key_file or key_pem, not both',
  ])
  expect(found({ ...files, min_version: '1.3', max_version: '1.2' })).toEqual(['min_version must not be above max_version'])
  expect(found({ ...files, client_ca_file_reload: true })).toEqual(['client_ca_file_reload needs client_ca_file'])
  expect(found({ ...files, min_version: 1.3 })).toEqual([expect.stringContaining('must be one of 1.2, 1.3: put it in quotes (got 1.3)')])
})

describe('one client cannot keep the others out:', () => {
  test.each([
    ['headers', 'POST /v1/traces HTTP/1.1\r\nhost: x\r\nx-slow: ', 'read_header_timeout'],
    ['a body', 'POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{', 'read_timeout'],
    ['nothing', '', 'read_header_timeout'],
  ])('%s that never come to an end are cut off', async (_what, begun, option) => {
    const { port, context } = await start('http', { [option]: '100ms' })
    const socket = connect(port, '127.0.0.1')
    socket.write(begun)
    let answer = ''
    socket.on('data', (bytes) => (answer += String(bytes)))
    expect(await sendHttp(port, {})).toBe('ok')
    await once(socket, 'close')
    expect(answer).toMatch(/^HTTP\/1.1 408 /)
    expect(context.counts.receiver_limit_hits).toBe(1)
  })

  test('headers without end are refused', async () => {
    const { port, context } = await start('http', {})
    const socket = connect(port, '127.0.0.1')
    socket.write(`POST /v1/traces HTTP/1.1\r\nhost: x\r\nx-long: ${'x'.repeat(20_000)}`)
    expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1.1 431 /)
    await once(socket, 'close')
    expect(context.counts.receiver_limit_hits).toBe(1)
  })

  test.each(PROTOCOLS)('what does not fit beside the requests under way is told to come back: %s', async (protocol) => {
    let release = () => {}
    const stored = new Promise<void>((resolve) => (release = resolve))
    const sizes = protocol !== 'http' ? { max_recv_msg_size_mib: 1 } : { max_request_body_size: 2 ** 20 }
    const next = { traces: () => stored }
    const { port, context } = await start(protocol, sizes, { admission: { request_limit_mib: 1 }, next })
    const post = protocol !== 'http' ? postGrpc : postHttp
    const [first, second] = [post(port, 'a'.repeat(600_000)), post(port, 'b'.repeat(600_000))]
    expect(await Promise.race([first, second])).toBe(protocol !== 'http' ? 'UNAVAILABLE RetryInfo' : '503 1')
    release()
    expect([await first, await second]).toContain('ok')
    expect(await post(port, 'c'.repeat(600_000))).toBe('ok')
    expect(context.counts.receiver_limit_hits).toBe(1)
  })

  test.each(PROTOCOLS)('a body that takes long to unpack is overtaken by what comes after it: %s', async (protocol) => {
    const { port } = await start(protocol, {})
    const send = protocol === 'http' ? byHttp(port) : byGrpc(port)
    const order: string[] = []
    const answered = (which: string) => (answer: string) => void order.push(`${which}: ${answer}`)
    const large = gzipSync(request('a'.repeat(20_000_000)))
    await Promise.all([send(large, true).then(answered('large')), send(request('b'), false).then(answered('small'))])
    expect(order).toEqual(['small: ok', 'large: ok'])
  })

  test('a small body that says it unpacks to a large one takes no room for it', async () => {
    const { port, context } = await start('http', { max_request_body_size: 2 ** 20 }, { admission: { request_limit_mib: 1 } })
    const lie = gzipSync(request('short'))
    lie.writeUInt32LE(2 ** 20, lie.length - 4)
    const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' }
    const send = () => fetch(`http://127.0.0.1:${port}/v1/traces`, { method: 'POST', headers, body: new Uint8Array(lie) })
    const answers = await Promise.all([send(), send(), send(), send()])
    expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 400])
    expect(context.counts.receiver_limit_hits).toBeUndefined()
  })

  test('a body whose end is damaged takes no more room than it needs', async () => {
    let release = () => {}
    const stored = new Promise<void>((resolve) => (release = resolve))
    const { port, context } = await start(
      'http',
      { max_request_body_size: 2 ** 21 },
      { admission: { request_limit_mib: 2 }, next: { traces: () => stored } },
    )
    const send = byHttp(port)
    const waiting = send(request('a'.repeat(500_000)), false)
    const damaged = gzipSync(request(randomBytes(30_000).toString('hex')))
    damaged.writeUInt32LE(2_000_000, damaged.length - 4)
    expect(await send(damaged, true)).toBe('400')
    expect(context.counts.receiver_limit_hits).toBeUndefined()
    release()
    expect(await waiting).toBe('ok')
  })

  test('what a small body unpacks to counts as well', async () => {
    let release = () => {}
    const stored = new Promise<void>((resolve) => (release = resolve))
    const { port } = await start(
      'http',
      { max_request_body_size: 2 ** 20 },
      { admission: { request_limit_mib: 1 }, next: { traces: () => stored } },
    )
    const [first, second] = [postHttp(port, 'a'.repeat(600_000), true), postHttp(port, 'b'.repeat(600_000), true)]
    expect(await Promise.race([first, second])).toBe('503 1')
    release()
    expect([await first, await second]).toContain('ok')
  })
})

/** A request with one span of this name. */
function request(name: string): Buffer {
  const field = (tag: number, bytes: Buffer) => Buffer.concat([Buffer.from([tag]), varint(bytes.length), bytes])
  const span = Buffer.concat([field(0x0a, Buffer.alloc(16, 1)), field(0x12, Buffer.alloc(8, 1)), field(0x2a, Buffer.from(name))])
  return field(0x0a, field(0x12, field(0x12, span)))
}

function varint(n: number): Buffer {
  const bytes = []
  for (; n > 127; n >>>= 7) bytes.push((n & 127) | 128)
  return Buffer.from([...bytes, n])
}

/** Bodies as they go out, one on the heels of the other. */
function byHttp(port: number) {
  return async (body: Buffer, gzip: boolean) => {
    const headers = { 'content-type': 'application/x-protobuf', ...(gzip && { 'content-encoding': 'gzip' }) }
    const { status } = await exactly.sendHttp(port, { method: 'POST', path: '/v1/traces', headers, body })
    return status === 200 ? 'ok' : String(status)
  }
}

function byGrpc(port: number) {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  onTestFinished(() => session.destroy())
  return async (body: Buffer, gzip: boolean) => {
    const headers: Record<string, string> = gzip ? { 'grpc-encoding': 'gzip' } : {}
    const { grpc_code } = await exactly.sendGrpc(session, { path: EXPORT, headers, body, compressed: gzip })
    return grpc_code === 0 ? 'ok' : String(grpc_code)
  }
}

async function postHttp(port: number, name: string, gzip = false): Promise<string> {
  const body = gzip ? gzipSync(request(name)) : request(name)
  const headers = { 'content-type': 'application/x-protobuf', ...(gzip && { 'content-encoding': 'gzip' }) }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/traces`, { method: 'POST', headers, body: new Uint8Array(body) })
  return answer.status === 200 ? 'ok' : `${answer.status} ${answer.headers.get('retry-after')}`
}

function postGrpc(port: number, name: string): Promise<string> {
  const caller = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 })
  const asIs = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    caller.makeUnaryRequest(EXPORT, asIs, asIs, request(name), (error) => {
      caller.close()
      const details = error?.metadata.get('grpc-status-details-bin')[0] as Buffer | undefined
      const retry = details?.includes('google.rpc.RetryInfo') ? 'RetryInfo' : 'no RetryInfo'
      resolve(error ? `${grpc.status[error.code]} ${retry}` : 'ok')
    })
  })
}
