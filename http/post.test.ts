import { once } from 'node:events'
import { createServer as createHttp, type RequestListener } from 'node:http'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, createServer as createTls } from 'node:tls'

import { afterEach, expect, test } from 'vitest'

import { authority, signedBy } from '../test/certificates.ts'
import { posting, type Poster, type Posting } from './post.ts'

const closes: (() => void)[] = []
afterEach(() => {
  for (const close of closes.splice(0)) close()
})

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

/** A server that is told of each connection, and when it has read a request up to this mark. */
async function rawServer(onRequest: (socket: Socket, connection: number, request: string) => void) {
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const connection = ++connections
    let text = ''
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      for (let end = text.indexOf('END'); end >= 0; end = text.indexOf('END')) {
        const request = text.slice(0, end)
        text = text.slice(end + 3)
        onRequest(socket, connection, request)
      }
    })
  })
  const port = await portOf(server)
  closes.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port, connections: () => connections }
}

const plainly =
  (port: number): Posting['connect'] =>
  (how) =>
    connect({ port, host: '127.0.0.1', ...how })

function poster(port: number, options: { connections?: number; timeoutMs?: number } = {}, how = plainly(port)): Poster {
  const made = posting({ connect: how, connections: 4, timeoutMs: 5_000, ...options })
  closes.push(made.close)
  return made
}

const HEAD = 'POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\n'
const BODY = [Buffer.from('END')]
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

async function httpServer(listener: RequestListener) {
  const server = createHttp(listener)
  let connections = 0
  server.on('connection', () => connections++)
  const port = await portOf(server)
  closes.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port, connections: () => connections }
}

test('a request is sent in all its pieces and answered, again and again over one connection', async () => {
  const { port, connections } = await httpServer(async (request, response) => {
    const body = await buffer(request)
    response.writeHead(request.url === '/chunked' ? 200 : 500, { 'x-length': body.length })
    response.write(body.subarray(0, 10))
    response.end(body.subarray(10))
  })
  const { post } = poster(port)
  for (const [path, status] of [
    ['/', 500],
    ['/chunked', 200],
    ['/', 500],
  ] as const) {
    const pieces = [1, 300_000, 7].map((size, i) => Buffer.alloc(size, 65 + i))
    const answer = await post(`POST ${path} HTTP/1.1\r\nHost: here\r\nContent-Length: 300008\r\n\r\n`, pieces)
    expect([answer.status, answer.body.equals(Buffer.concat(pieces))]).toEqual([status, true])
  }
  expect(connections()).toBe(1)
})

test('the same over TLS', async () => {
  const ca = await authority()
  const server = createTls(await signedBy(ca), (socket) => void socket.on('error', () => {}).on('data', () => socket.write(OK)))
  const port = await portOf(server)
  closes.push(() => server.close())
  const { post } = poster(port, {}, (how) => connectTls({ port, host: 'localhost', ca: ca.cert, ...how }))
  for (let i = 0; i < 3; i++) expect((await post(HEAD, BODY)).body.toString()).toBe('ok')
  const stranger = poster(port, {}, (how) => connectTls({ port, host: 'localhost', ...how }))
  await expect(stranger.post(HEAD, BODY)).rejects.toThrow(/certificate/)
})

const GOOD: [string, string, string][] = [
  ['with a length', OK, 'ok'],
  ['with no body', 'HTTP/1.1 204 No Content\r\n\r\n', ''],
  ['with a length of nothing', 'HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n', ''],
  [
    'in chunks',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;name=value\r\nok\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: 1\r\n\r\n',
    'ok0123456789abcdef',
  ],
  ['after others that are about it', `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n${OK}`, 'ok'],
  ['without a reason', 'HTTP/1.1 500 \r\nContent-Length: 2\r\n\r\nno', 'no'],
]

test.each(GOOD)('an answer %s is read, wherever it is cut', async (_name, text, body) => {
  const { port, connections } = await rawServer(async (socket, _connection, request) => {
    const cut = Number(request.split('\r\n\r\n')[1])
    if (cut > 0) {
      socket.write(text.slice(0, cut), 'latin1')
      await sleep(5)
    }
    socket.write(text.slice(cut), 'latin1')
  })
  const { post } = poster(port, { connections: 16 })
  const answers = await Promise.all(Array.from(text, (_, cut) => post(HEAD, [Buffer.from(`${cut}`), ...BODY])))
  expect(new Set(answers.map((answer) => answer.body.toString()))).toEqual(new Set([body]))
  expect(connections()).toBe(16)
})

const ONCE: [string, string, boolean][] = [
  ['says that it closes', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok', false],
  ['speaks HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', false],
  ['rests for a second only', 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok', false],
  ['says more than was asked', `${OK}${OK}`, false],
  ['ends its answer by closing', 'HTTP/1.1 200 OK\r\n\r\nok', true],
]

test.each(ONCE)('a server that %s gets each request over a connection of its own', async (_name, text, ends) => {
  const { port, connections } = await rawServer((socket) => (ends ? socket.end(text) : socket.write(text)))
  const { post } = poster(port)
  for (let i = 0; i < 3; i++) expect((await post(HEAD, BODY)).body.toString()).toBe('ok')
  expect(connections()).toBe(3)
})

const BAD: [string, string, RegExp][] = [
  ['closes without an answer', '', /closed the connection/],
  ['closes amid its head', 'HTTP/1.1 200 OK\r\nContent-', /closed the connection/],
  ['closes amid its body', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok', /closed the connection/],
  ['closes amid a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok', /closed the connection/],
  ['speaks something else', 'SSH-2.0-OpenSSH_9.6\r\n\r\n', /does not begin as one of HTTP/],
  ['changes the protocol', 'HTTP/1.1 101 Switching\r\n\r\n', /changes the protocol/],
  ['counts wrongly', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n', /longer than it says/],
  ['does not count', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok\r\n0\r\n\r\n', /says no size/],
  ['packs what was not to be packed', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nok', /was not asked for/],
  ['never ends its head', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}`, /more than 65536 bytes/],
]

test.each(BAD)('a server that %s fails that request, and not the next one', async (_name, text, problem) => {
  const { port } = await rawServer((socket, connection) => (connection === 1 ? socket.end(text) : socket.write(OK)))
  const { post } = poster(port)
  await expect(post(HEAD, BODY)).rejects.toThrow(problem)
  expect((await post(HEAD, BODY)).status).toBe(200)
})

test('nobody who listens, and a server that says nothing, are errors', async () => {
  const { port } = await rawServer(() => {})
  await expect(poster(port, { timeoutMs: 50 }).post(HEAD, BODY)).rejects.toThrow('no answer in 0.05 s')
  const gone = createServer()
  const nobody = await portOf(gone)
  gone.close()
  await expect(poster(nobody).post(HEAD, BODY)).rejects.toThrow('ECONNREFUSED')
})

test('a connection that the server has ended while it rested is not used again', async () => {
  const { port, connections } = await rawServer((socket) => {
    socket.write(OK)
    setTimeout(() => socket.end(), 5)
  })
  const { post } = poster(port)
  for (let i = 0; i < 3; i++) {
    expect((await post(HEAD, BODY)).status).toBe(200)
    await sleep(50)
  }
  expect(connections()).toBe(3)
})

test('an answer that comes before the request was read is taken, and its connection ended', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {}).pause()
    socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge')
  })
  const port = await portOf(server)
  closes.push(() => server.close())
  const { post } = poster(port)
  const size = 64 << 20
  const answer = await post(`POST / HTTP/1.1\r\nHost: here\r\nContent-Length: ${size}\r\n\r\n`, [Buffer.alloc(size)])
  expect([answer.status, answer.body.toString()]).toEqual([413, 'large'])
})

test('no more than so many go at once; the others wait, and may be given up meanwhile', async () => {
  const asked: Socket[] = []
  const { port, connections } = await rawServer((socket) => void asked.push(socket))
  const { post, close } = poster(port, { connections: 2 })
  const aborts = Array.from({ length: 4 }, () => new AbortController())
  const posts = aborts.map(({ signal }) => post(HEAD, BODY, signal).then(({ status }) => status, String))
  await expect.poll(() => asked.length).toBe(2)
  aborts[1]!.abort(new Error('under way'))
  aborts[2]!.abort(new Error('waiting'))
  expect(await posts[1]).toBe('Error: under way')
  expect(await posts[2]).toBe('Error: waiting')
  await expect.poll(() => asked.length).toBe(3)
  for (const socket of asked) socket.write(OK)
  expect(await posts[0]).toBe(200)
  expect(await posts[3]).toBe(200)
  expect(connections()).toBe(3)
  await expect(post(HEAD, BODY, AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
  const last = post(HEAD, BODY)
  close()
  await expect(last).rejects.toThrow('closed')
})

test('an answer is taken as it comes, and no more of it is read than it is waited for', async () => {
  const { port, connections } = await rawServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let i = 0; i < 200; i++) socket.write(`10000\r\n${'x'.repeat(65_536)}\r\n`)
    socket.write('0\r\n\r\n')
  })
  const { send, post } = poster(port, { timeoutMs: 1_000 })
  let taken = 0
  const told: string[] = []
  await new Promise<void>((resolve, reject) => {
    const sent = send(HEAD, BODY, {
      begin: (status) => told.push(`begins ${status}`),
      data(piece) {
        taken += piece.length
        if (told.length > 1) return
        told.push('waits')
        sent.pause()
        setTimeout(() => {
          told.push(taken < 1_000_000 ? 'goes on' : 'did not wait')
          sent.resume()
        }, 2_200)
      },
      end: resolve,
      fail: reject,
    })
  })
  expect([taken, ...told]).toEqual([200 * 65_536, 'begins 200', 'waits', 'goes on'])
  expect((await post(HEAD, BODY)).body.length).toBe(taken)
  expect(connections()).toBe(1)
})

test('one that is stopped is told why, once, whether it is under way or waits for its turn', async () => {
  const { port, connections } = await rawServer((socket) => socket.write(OK))
  const { send, post } = poster(port, { connections: 1 })
  const told: unknown[] = []
  const taker = (name: string) => ({
    begin() {},
    data() {},
    end: () => told.push(`${name} ends`),
    fail: (error: unknown) => told.push(name, error),
  })
  const first = send(HEAD, BODY, taker('first'))
  const second = send(HEAD, BODY, taker('second'))
  second.stop('why')
  first.stop('also')
  for (const sent of [first, second]) {
    sent.stop('again')
    sent.pause()
    sent.resume()
  }
  expect(told).toEqual(['second', 'why', 'first', 'also'])
  expect((await post(HEAD, BODY)).status).toBe(200)
  expect(connections()).toBeLessThan(3)
})

test('what a taker throws is the failure', async () => {
  const { port } = await rawServer((socket) => socket.write(OK))
  const { send } = poster(port)
  const refusal = new Error('not this one')
  const failed = new Promise((resolve, reject) => {
    send(HEAD, BODY, {
      begin: () => {
        throw refusal
      },
      data() {},
      end: () => reject(new Error('ended')),
      fail: resolve,
    })
  })
  expect(await failed).toBe(refusal)
})
