import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Server, type Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { createAdmission } from './admission.ts'
import { BodyError, readBody } from './http_body.ts'
import {
  answering,
  onNode,
  type HttpAnswer,
  type HttpHandler,
  type HttpRequest,
  type HttpResponse,
  type HttpService,
} from './http_exchange.ts'
import { createHttpServer, type HttpServerOptions } from './http_server.ts'
import { listen } from './listen.ts'
import { createPlainServer } from './plain_server.ts'
import { createPool } from './pool.ts'

interface Started {
  readonly port: number
  /** Every request that the handler got, in order: its target, some fields and its body, or why there was none. */
  readonly seen: string[]
  readonly limits: string[]
  /** Of every answer, whether it went out whole. */
  readonly closes: boolean[]
  /** Lets requests go on that wait for long. */
  release(): void
  /** How many of them node:http read. */
  byNode(): number
  stop(): Promise<void>
}

/** Both serve the same handlers, which answer with what they saw, at once or in pieces. */
async function start(kind: 'plain' | 'node', options: HttpServerOptions = {}): Promise<Started> {
  const seen: string[] = []
  const limits: string[] = []
  const closes: boolean[] = []
  let release = () => {}
  const gate = new Promise<void>((resolve) => (release = resolve))
  const open = createAdmission({ request_limit_mib: 1 }, () => {})
  const whole: HttpHandler = async (request) => {
    const wish = request.header('x-wish')
    const line = `${request.method} ${request.path} ${request.header('content-type')} ${request.header('authorization')}`
    const lease = open()
    let answer: HttpAnswer = {
      status: 401,
      headers: { 'content-type': 'text/plain', 'www-authenticate': 'Basic' },
      body: Buffer.from('no\n'),
    }
    try {
      if (wish === 'wait') await turn()
      if (wish === 'long') await gate
      if (wish === 'refuse') throw new BodyError(415, 'refused')
      const body = await readBody(request, 500_000, lease)
      if (wish === 'late') await turn()
      seen.push(`${line} ${body.length} ${createHash('md5').update(body).digest('hex')}`)
      answer = { status: 200, headers: { 'content-type': 'text/plain' }, body: Buffer.from(wish === 'nothing' ? '' : seen.at(-1)!) }
    } catch (error) {
      seen.push(`${line} ${(error as Error).message}`)
      if (error instanceof BodyError) answer = { ...answer, status: error.status }
    }
    lease.end()
    return answer
  }
  async function inPieces(request: HttpRequest, response: HttpResponse): Promise<void> {
    const lease = open()
    try {
      const body = Buffer.from(await readBody(request, 500_000, lease))
      seen.push(`pieces ${request.path} ${body.length}`)
      response.begin(200, { 'content-type': 'text/plain' })
      for (let at = 0; at < body.length; at += PIECE) {
        await new Promise<void>((resolve) => response.write(body.subarray(at, at + PIECE), resolve) && resolve())
        if (at % 3 === 0) await turn()
      }
      response.end()
    } catch (error) {
      seen.push(`pieces ${request.path} ${(error as Error).message}`)
      response.send({ status: 413, headers: {}, body: Buffer.from('too large') })
    }
    lease.end()
  }
  const atOnce = answering(whole)
  const serve: HttpService = (request, response) => {
    response.onClose((isWhole) => closes.push(isWhole))
    if (request.header('x-wish') === 'pieces') void inPieces(request, response)
    else atOnce(request, response)
  }
  const limited = (limit: string) => limits.push(limit)
  const pool = createPool(4 << 20, () => limited('bytes_in_flight'))
  const others = createHttpServer(
    { ...options, limited },
    onNode(serve, () => false, pool),
  )
  let byNode = 0
  others.on('request', () => byNode++)
  const paths = new Set(['/v1/traces', '/v1/logs'])
  const plain = kind === 'plain' ? createPlainServer({ others, paths, serve, pool, limited }) : undefined
  const server: Server = plain?.server ?? others
  const { port } = await listen(server, { host: '127.0.0.1', port: 0 }, '')
  async function stop() {
    if (plain) await plain.close()
    else others.close().closeAllConnections()
    expect(pool.used()).toBe(0)
  }
  return { port, seen, limits, closes, release, byNode: () => byNode, stop }
}

/** Sends pieces, each in a segment of its own, and returns all that is answered until the connection is closed. */
async function talk(port: number, pieces: readonly (Buffer | 'answer')[], ends: boolean): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
  let answers = ''
  socket.setEncoding('latin1').on('data', (text: string) => (answers += text))
  socket.on('error', () => {})
  socket.once('end', () => socket.end())
  const closed = new Promise((resolve) => socket.once('close', resolve))
  let awaited = 0
  for (const piece of pieces) {
    if (piece === 'answer') for (awaited++; answers.split('HTTP/1.1 ').length <= awaited;) await turn()
    else if (socket.writable) socket.write(piece)
    await turn()
  }
  if (ends) socket.end()
  await closed
  return joined(answers.replaceAll(/Date: [^\r]+/g, 'Date: now'))
}

/** With the chunks of each answer as one. */
function joined(answers: string): string {
  let text = ''
  for (let at = 0, end = 0; (end = answers.indexOf('\r\n\r\n', at) + 4) > 3; at = end) {
    const head = answers.slice(at, end)
    text += head
    if (/transfer-encoding: chunked/i.test(head)) {
      for (let size = NaN; size !== 0; end += size + 2) {
        const start = answers.indexOf('\r\n', end) + 2
        size = parseInt(answers.slice(end, start), 16)
        text += answers.slice(start, start + size)
        end = start
      }
    } else {
      const size = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
      text += answers.slice(end, end + size)
      end += size
    }
  }
  return text
}

type Random = (n: number) => number
const WISHES = ['nothing', 'wait', 'late', 'echo', 'refuse', 'pieces', 'pieces']
const PIECE = 7_000
const SIZES = [0, 1, 20, 3_000]
const LARGE = [...SIZES, 70_000, 300_000, 600_000]
const pick = <T>(random: Random, of: readonly T[]): T => of[random(of.length)]!

interface Parts {
  first: string
  fields: string[]
  body: Buffer
}

function plainRequest(random: Random, wishes: readonly string[], sizes: readonly number[]): Parts {
  const body = Buffer.alloc(pick(random, sizes), random(256))
  const fields = ['Host: here', `Content-Length: ${body.length}`, 'content-type: application/x-protobuf', `x-wish: ${pick(random, wishes)}`]
  if (random(3) === 0) fields.push('authorization:\t Basic YTpi')
  if (random(8) === 0) fields.push('x-spaces: after them  ')
  if (random(3) === 0) fields.push('Connection: Keep-Alive')
  if (random(8) === 0) fields.push('empty:', 'x-_!~: {a}')
  return { first: `POST ${pick(random, ['/v1/traces', '/v1/logs'])} HTTP/1.1`, fields, body }
}

const withLength = (fields: readonly string[], { length }: Buffer): string[] =>
  fields.map((field) => (/^content-length/i.test(field) ? `${field.split(':')[0]}: ${length}` : field))

/** Valid, but for node:http. */
const OTHER: readonly ((parts: Parts) => void)[] = [
  (parts) => (parts.first = 'GET /v1/traces HTTP/1.1'),
  (parts) => (parts.first = 'POST /v1/traces?x=1 HTTP/1.1'),
  (parts) => (parts.first = 'POST /elsewhere HTTP/1.1'),
  (parts) => parts.fields.push(`x-long: ${'x'.repeat(5_000)}`),
  (parts) => parts.fields.push('x-twice: 1', 'x-twice: 2', 'x-latin: \xe9'),
  (parts) => {
    parts.fields[1] = 'Transfer-Encoding: chunked'
    const { length } = parts.body
    parts.body = Buffer.concat([
      Buffer.from(length > 0 ? `${length.toString(16)}\r\n` : ''),
      parts.body,
      Buffer.from(length > 0 ? '\r\n0\r\n\r\n' : '0\r\n\r\n'),
    ])
  },
]

const LENGTHS = [
  '+5',
  '-1',
  '0x10',
  '5,5',
  '5 5',
  '99999999999999999999',
  '9007199254740993',
  '',
  '00005',
  '\t3',
  '3 ',
  '3\t',
  '\t  3',
  '5.0',
  '1e1',
  '5;',
  '٥',
  '3',
]
const FIELDS = [
  'Content-Length: 5',
  'content-length : 5',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding : chunked',
  'transfer-encoding: identity',
  'transfer-encoding: xchunked',
  'Transfer_Encoding: chunked',
  'Expect: 100-continue',
  'Expect: more',
  'Upgrade: h2c',
  'HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA',
  'Connection: upgrade',
  'Connection: close',
  'Connection: close, keep-alive',
  'Connection: content-length',
  'Host: there',
  'TE: trailers',
  'Trailer: content-length',
  ' folded: on',
  '\tfolded',
  'no field',
  ': no name',
  'bad name: x',
  'bad\x00: x',
  'nul: a\x00b',
  'cr: a\rb',
  'lf: a\nContent-Length: 3',
  'del: \x7f',
  'tab: a\tb',
  `long: ${'x'.repeat(20_000)}`,
]
const FIRSTS = [
  'POST /v1/traces HTTP/1.0',
  'POST /v1/traces HTTP/1.2',
  'POST /v1/traces HTTP/2.0',
  'POST /v1/traces',
  'POST  /v1/traces HTTP/1.1',
  'POST /v1/traces HTTP/1.1 ',
  'POST\t/v1/traces HTTP/1.1',
  ' POST /v1/traces HTTP/1.1',
  '\r\nPOST /v1/traces HTTP/1.1',
  '\nPOST /v1/traces HTTP/1.1',
  'post /v1/traces HTTP/1.1',
  'POST http://here/v1/traces HTTP/1.1',
  'POST //v1/traces HTTP/1.1',
  'POST * HTTP/1.1',
  'CONNECT here:80 HTTP/1.1',
  'PRI * HTTP/2.0',
  '',
]

function spoil(random: Random, parts: Parts): Buffer {
  const { fields } = parts
  const kind = random(6)
  if (kind === 0) fields[1] = `Content-Length: ${pick(random, LENGTHS)}`
  if (kind === 1) fields.splice(random(fields.length + 1), 0, pick(random, FIELDS))
  if (kind === 2) parts.first = pick(random, FIRSTS)
  if (kind === 3) fields.splice(random(fields.length), 1)
  if (kind === 4)
    parts.body = random(2) === 0 ? parts.body.subarray(random(parts.body.length + 1)) : Buffer.concat([parts.body, bytesOf(parts)])
  const bytes = bytesOf(parts)
  const at = random(bytes.length - parts.body.length)
  if (kind !== 5) return bytes
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  return Buffer.concat([before, Buffer.from([pick(random, [0, 9, 10, 13, 32, 44, 58, 127, 200, random(256)])]), after.subarray(random(2))])
}

const bytesOf = ({ first, fields, body }: Parts): Buffer =>
  Buffer.concat([Buffer.from([first, ...fields, '', ''].join('\r\n'), 'latin1'), body])

/** At random places, most of them where something begins. */
function cut(random: Random, bytes: Buffer): Buffer[] {
  const places = Array.from({ length: random(4) }, () => (random(2) === 0 ? random(bytes.length + 1) : random(400))).sort((a, b) => a - b)
  return [...places, bytes.length].map((end, i, ends) => bytes.subarray(ends[i - 1] ?? 0, end))
}

/** node:http may let go of an answer that it owes when it finds that what follows is no request. */
function isAlike(some: string, all: string): boolean {
  const last = some.lastIndexOf('HTTP/1.1 400 ')
  return some === all || (last >= 0 && all.startsWith(some.slice(0, last)) && all.endsWith(some.slice(last)))
}

describe('what is told to a client is what node:http would tell it', () => {
  let plain: Started
  let node: Started
  beforeAll(async () => {
    ;[plain, node] = await Promise.all([start('plain'), start('node')])
  })
  afterAll(() => Promise.all([plain.stop(), node.stop()]))

  const heard = async (server: Started, pieces: readonly (Buffer | 'answer')[], ends: boolean) => {
    server.seen.length = 0
    return { answers: await talk(server.port, pieces, ends), seen: [...server.seen].sort() }
  }
  const both = (pieces: readonly (Buffer | 'answer')[], ends: boolean) =>
    Promise.all([heard(plain, pieces, ends), heard(node, pieces, ends)])

  test('requests behind each other, in odd pieces, plain and others', async () => {
    const random = seeded(1)
    for (let i = 0; i < 40; i++) {
      let template = plainRequest(random, WISHES, LARGE)
      const requests = Array.from({ length: 1 + random(4) }, () => {
        const { first, fields, body } = plainRequest(random, WISHES, LARGE)
        template = random(2) === 0 ? { first, fields, body } : { ...template, fields: withLength(template.fields, body), body }
        const parts = { ...template, fields: [...template.fields] }
        if (random(8) === 0) pick(random, OTHER)(parts)
        return parts
      })
      const last = plainRequest(random, ['echo'], SIZES)
      last.fields = [...last.fields.filter((field) => !field.startsWith('Connection')), 'Connection: close']
      const pieces = cut(random, Buffer.concat([...requests, last].map(bytesOf)))
      const [ours, theirs] = await both(pieces, false)
      expect(ours, `stream ${i}`).toEqual(theirs)
    }
    expect(plain.byNode()).toBeLessThan(node.byNode() / 2)
  })

  test('requests that are no good', async () => {
    const random = seeded(2)
    for (let i = 0; i < 250; i++) {
      const parts = plainRequest(random, ['echo', 'echo', 'refuse'], SIZES)
      const good = random(2) === 0 ? [bytesOf(parts), 'answer' as const] : []
      const bad = spoil(random, parts)
      const [ours, theirs] = await both([...good, ...cut(random, bad)], true)
      expect(ours.seen, JSON.stringify(bad.toString('latin1', 0, 500))).toEqual(theirs.seen)
      expect(isAlike(ours.answers, theirs.answers) || isAlike(theirs.answers, ours.answers), bad.toString('latin1', 0, 500)).toBe(true)
    }
  })
})

test('a second request that does not come to its end in time is cut off, as the first would be', async () => {
  const server = await start('plain', { requestTimeout: 60 })
  onTestFinished(server.stop)
  const head = 'POST /v1/traces HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n'
  const answers = await talk(server.port, [Buffer.from(`${head}fives${head}four`)], false)
  expect(answers).toMatch(/^HTTP\/1.1 200 OK.*HTTP\/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n$/s)
  expect(server.limits).toEqual(['request_timeout'])
  expect(server.seen.at(-1)).toBe('POST /v1/traces undefined undefined aborted')
})

test('what is sent behind a request that waits is kept, and where there is no room for it the connection ends', async () => {
  const server = await start('plain')
  onTestFinished(server.stop)
  const request = (...fields: string[]) =>
    bytesOf({ first: 'POST /v1/logs HTTP/1.1', fields: ['Host: here', 'Content-Length: 0', ...fields], body: Buffer.alloc(0) })
  const behind = Buffer.concat([...Array<Buffer>(30).fill(request(`x-long: ${'x'.repeat(4_000)}`)), request('Connection: close')])
  const talks = Array.from({ length: 40 }, () => talk(server.port, [request('x-wish: long'), behind], false))
  await expect.poll(() => server.limits.length, { timeout: 10_000 }).toBeGreaterThan(0)
  server.release()
  const answered = (await Promise.all(talks)).map((answers) => answers.split('HTTP/1.1 200').length - 1)
  expect(new Set(answered)).toEqual(new Set([0, 32]))
  expect(new Set(server.limits)).toEqual(new Set(['bytes_in_flight']))
})

describe('a client that goes is told of once, for its answer', () => {
  test.each<[string, 'plain' | 'node', (socket: Socket) => void]>([
    ['closes', 'plain', (socket) => socket.destroy()],
    ['closes', 'node', (socket) => socket.destroy()],
    ['sends no more', 'plain', (socket) => socket.end()],
    ['sends no more', 'node', (socket) => socket.end()],
    ['resets', 'plain', (socket) => socket.resetAndDestroy()],
    ['resets', 'node', (socket) => socket.resetAndDestroy()],
  ])('%s: %s', async (_how, kind, go) => {
    const server = await start(kind)
    onTestFinished(server.stop)
    const socket = connect(server.port, '127.0.0.1').on('error', () => {})
    const request = (wish: string) => `POST /v1/logs HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\nx-wish: ${wish}\r\n\r\n`
    socket.write(request('echo'))
    await once(socket, 'data')
    expect(server.closes).toEqual([true])
    socket.write(request('long'))
    await sleep(20)
    expect(server.closes).toEqual([true])
    go(socket)
    await expect.poll(() => server.closes).toEqual([true, false])
    server.release()
    await sleep(5)
    expect(server.closes).toEqual([true, false])
  })
})
