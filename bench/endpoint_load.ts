// Chat completions sent to whatever answers them, and how long it took. By plain sockets, that are open before they are needed, and one
// prepared request: the client shares its core with the model server, and what it does for itself is in the times of all answers that wait for
// that core. node:http took twice as long for each, and stopped to collect its garbage.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface Sent {
  /** Milliseconds of each, to the end, or to the first byte of a stream. */
  readonly times: number[]
  readonly failed: number
  readonly seconds: number
}

export interface ChatClient {
  /** So many a second, whether they are answered or not. */
  atRate(rate: number, seconds: number): Promise<Sent>
  /** So many at a time, each after the other. */
  atOnce(clients: number, seconds: number): Promise<Sent>
  close(): void
}

/** More are opened where all of these wait for an answer. */
const CONNECTIONS = 32
const CONTENT = 'What the agent knows by now, at some length. '.repeat(20)

export async function chatClient(port: number, stream: boolean): Promise<ChatClient> {
  const request = chatRequest(port, stream)
  const idle = Array.from({ length: CONNECTIONS }, () => connectTo(port))
  const all = [...idle]
  await Promise.all(idle.map(({ socket }) => once(socket, 'connect')))

  /** `answered` is given milliseconds, NaN where it failed. */
  function send(answered: (time: number) => void): void {
    let connection = idle.pop()
    while (connection?.socket.destroyed) connection = idle.pop()
    const used = connection ?? another()
    const began = performance.now()
    used.ask(request, (first, last) => {
      idle.push(used)
      answered((stream ? first : last) - began)
    })
  }

  function another(): Connection {
    const connection = connectTo(port)
    all.push(connection)
    return connection
  }

  async function atRate(rate: number, seconds: number): Promise<Sent> {
    const began = performance.now()
    const count = rate * seconds
    const times: number[] = []
    let sent = 0
    await new Promise<void>((resolve) => {
      const answered = (time: number) => {
        if (times.push(time) === count) resolve()
      }
      const timer = setInterval(() => {
        const due = Math.min(count, ((performance.now() - began) / 1_000) * rate)
        for (; sent < due; sent++) send(answered)
        if (sent === count) clearInterval(timer)
      }, 1)
    })
    return summary(times, began)
  }

  async function atOnce(clients: number, seconds: number): Promise<Sent> {
    const began = performance.now()
    const times: number[] = []
    const one = (resolve: () => void) => {
      const next = () => {
        if (performance.now() - began >= seconds * 1_000) return resolve()
        send((time) => {
          times.push(time)
          next()
        })
      }
      next()
    }
    await Promise.all(Array.from({ length: clients }, () => new Promise<void>(one)))
    return summary(times, began)
  }

  return {
    atRate,
    atOnce,
    close() {
      for (const { socket } of all) socket.destroy()
    },
  }
}

function chatRequest(port: number, stream: boolean): Buffer {
  const body = JSON.stringify({ model: 'default', stream, messages: [{ role: 'user', content: CONTENT }] })
  const headers = [
    ...['POST /v1/chat/completions HTTP/1.1', `host: 127.0.0.1:${port}`, 'content-type: application/json'],
    ...[`content-length: ${body.length}`, ...(stream ? ['user-agent: stream'] : [])],
  ]
  return Buffer.from(`${headers.join('\r\n')}\r\n\r\n${body}`)
}

interface Connection {
  readonly socket: Socket
  /** One at a time. Told when the first byte of the answer's body came and when its last; NaN where it failed. */
  ask(request: Buffer, answered: (first: number, last: number) => void): void
}

/** What comes is read at once, so that one does for all connections. */
const received = Buffer.alloc(64 * 1024)
const HEAD_END = '\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'

function connectTo(port: number): Connection {
  let answered: (first: number, last: number) => void = () => {}
  let answer = ''
  let first = NaN
  const onread = { buffer: received, callback: read }
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, onread })
  // Whatever ends a connection, it is closed then.
  socket.on('error', () => {}).on('close', () => done(NaN, NaN))

  function read(size: number): boolean {
    const now = performance.now()
    answer += received.toString('latin1', 0, size)
    const body = answer.indexOf(HEAD_END) + HEAD_END.length
    if (body < HEAD_END.length) return true
    if (Number.isNaN(first) && answer.length > body) first = now
    if (!answer.startsWith('HTTP/1.1 200 ')) socket.destroy()
    else if (isWhole(answer, body)) done(first, now)
    return true
  }

  function done(from: number, to: number): void {
    const tell = answered
    answered = () => {}
    answer = ''
    first = NaN
    tell(from, to)
  }

  return {
    socket,
    ask(request, tell) {
      answered = tell
      socket.write(request)
    },
  }
}

function isWhole(answer: string, body: number): boolean {
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(answer)
  return length ? answer.length === body + Number(length[1]) : answer.endsWith(LAST_CHUNK)
}

function summary(times: readonly number[], began: number): Sent {
  const answered = times.filter((time) => !Number.isNaN(time))
  return { times: answered, failed: times.length - answered.length, seconds: (performance.now() - began) / 1_000 }
}
