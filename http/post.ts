// POST over connections that last, for requests that come often and whose bytes are there: what node:http does for one of them, through a
// stream for the request and another for its answer, costs several times as much CPU as the system calls.

import { connect as connectSocket, isIP, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { urlToHttpOptions } from 'node:url'

import { answerReader, BadAnswer, type AnswerReader, type AnswerTaker } from './answer.ts'

export interface Posting {
  /** Opens a connection to the server, which is read as these options say. */
  readonly connect: (options: ConnectOptions) => Socket
  /** Connections at once. Past that, requests wait. */
  readonly connections: number
  /** A server that says nothing, and takes nothing, for so long is given up. */
  readonly timeoutMs: number
  /** One that does not let us connect for so long is none; where it is not said, `timeoutMs`. */
  readonly connectMs?: number
}

export interface ConnectOptions {
  readonly noDelay: true
  readonly keepAlive: true
  readonly onread: OnReadOpts
}

export interface Poster {
  /**
   * `head` is the request's up to its last header, and of ASCII; `body` must not change until the promise has settled. Rejects when there is
   * no whole answer.
   */
  post(head: string, body: readonly Buffer[], abort?: AbortSignal): Promise<Answer>
  /** The same with an answer that is taken as it comes. */
  send(head: string, body: readonly Buffer[], taker: Taker): Sent
  /** Ends all connections. */
  close(): void
}

/** What a body has beyond MOST_BODY_BYTES is passed over. */
export interface Answer {
  readonly status: number
  readonly body: Buffer
}

/** Told of one of `end` and `fail`, once; they must not throw. What `begin` or `data` throws is the failure. */
export interface Taker extends AnswerTaker {
  end(): void
  fail(error: unknown): void
}

/** A request under way; once it is over, nothing happens. */
export interface Sent {
  /** No more is read until it goes on. */
  pause(): void
  resume(): void
  /** Ends it with this error. */
  stop(error: unknown): void
}

/** The server neither said nor took anything for too long. */
export class Silent extends Error {}

interface Job {
  readonly head: string
  readonly body: readonly Buffer[]
  readonly taker: Taker
  /** As long as that is busy with it. */
  connection: Connection | undefined
}

interface Connection {
  begin(job: Job): void
  pause(): void
  resume(): void
  /** Ends it, and the request that it is busy with. */
  fail(error: unknown): void
}

const MOST_BODY_BYTES = 16 << 20
/** A request that is no larger is copied into one piece, which takes less than to write two. */
const SMALL_BYTES = 16 << 10

/** Servers end connections that rest for longer, and one that ends just when it is used again fails its request. */
const IDLE_MS = 2_500
/** For all connections, since what is read is looked at and copied at once. */
const READ_BYTES = 64 << 10
let common: Buffer | undefined

/** Opens connections to the server of this http(s) URL. `port` is asked each time: of a server that may come to listen elsewhere. */
export function connectingTo(url: string, port?: () => number): Posting['connect'] {
  const { protocol, hostname, port: named } = urlToHttpOptions(new URL(url))
  const secure = protocol === 'https:'
  const host = hostname! // of IPv6 without its brackets
  const own = Number(named) || (secure ? 443 : 80)
  const servername = isIP(host) === 0 ? { servername: host } : {}
  return (options) => {
    const place = { host, port: port?.() ?? own, ...options }
    return secure ? connectTls({ ...servername, ...place }) : connectSocket(place)
  }
}

export function posting({ connect, connections, timeoutMs, connectMs = timeoutMs }: Posting): Poster {
  const open = new Set<Connection>()
  const resting: Connection[] = []
  const waiting: Job[] = []

  function post(head: string, body: readonly Buffer[], abort?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (abort?.aborted) return reject(abort.reason)
      const stop = () => sent.stop(abort!.reason)
      const over = () => abort?.removeEventListener('abort', stop)
      const sent = send(head, body, collecting(resolve, reject, over))
      abort?.addEventListener('abort', stop)
    })
  }

  function send(head: string, body: readonly Buffer[], taker: Taker): Sent {
    const job: Job = { head, body, taker, connection: undefined }
    start(job)
    return {
      pause: () => job.connection?.pause(),
      resume: () => job.connection?.resume(),
      stop(error) {
        if (job.connection) return job.connection.fail(error)
        const place = waiting.indexOf(job)
        if (place < 0) return
        waiting.splice(place, 1)
        taker.fail(error)
      },
    }
  }

  function start(job: Job): void {
    const connection = resting.pop() ?? (open.size < connections ? newConnection() : undefined)
    if (connection) connection.begin(job)
    else waiting.push(job)
  }

  function next(): void {
    const job = waiting.shift()
    if (job) start(job)
  }

  function newConnection(): Connection {
    let job: Job | undefined
    let reader: AnswerReader | undefined
    let silentMs = 0
    let isPaused = false
    const socket = connect({
      noDelay: true,
      keepAlive: true,
      onread: { buffer: (common ??= Buffer.allocUnsafeSlow(READ_BYTES)), callback: read },
    })
    const turnMs = Math.min(IDLE_MS, timeoutMs)

    function begin(its: Job): void {
      job = its
      its.connection = connection
      reader = undefined
      silentMs = 0
      socket.ref()
      write(socket, its)
    }

    function read(bytes: number, into: Uint8Array): boolean {
      silentMs = 0
      if (!job) {
        fail(new BadAnswer('there was no request'))
        return true
      }
      reader ??= answerReader(job.taker)
      try {
        settle(reader.take((into as Buffer).subarray(0, bytes)))
      } catch (error) {
        fail(error instanceof BadAnswer ? new Error(`a server's answer cannot be read: ${error.message}`) : error)
      }
      return true
    }

    function settle(whole: { readonly lasting: boolean } | undefined): void {
      if (!whole || !job) return
      const { taker } = job
      job.connection = undefined
      job = undefined
      // A server that answers before it has read the request will not read the rest of it.
      if (!whole.lasting || socket.writableLength > 0) fail(new Error('done'))
      else {
        resume()
        socket.unref()
        resting.push(connection)
        next()
      }
      taker.end()
    }

    function pause(): void {
      isPaused = true
      socket.pause()
    }

    function resume(): void {
      if (!isPaused) return
      isPaused = false
      silentMs = 0
      socket.setTimeout(turnMs).resume()
    }

    function fail(error: unknown): void {
      if (!open.delete(connection)) return
      const place = resting.indexOf(connection)
      if (place >= 0) resting.splice(place, 1)
      socket.destroy()
      const its = job
      job = undefined
      if (its) its.connection = undefined
      its?.taker.fail(error)
      next()
    }

    /** The clock starts again with each piece that is read or written, which is all it costs. */
    function onTimeout(): void {
      silentMs = isPaused ? 0 : silentMs + turnMs
      if (!job) fail(new Error('rested'))
      else if (socket.connecting && silentMs >= connectMs) fail(new Error(`no connection in ${connectMs / 1_000} s`))
      else if (silentMs >= timeoutMs) fail(new Silent(`no answer in ${timeoutMs / 1_000} s`))
      else socket.setTimeout(turnMs)
    }

    function onEnd(): void {
      if (job && reader) settle(reader.end())
      fail(new Error('the server closed the connection before it answered'))
    }

    socket.setTimeout(turnMs).on('timeout', onTimeout).on('end', onEnd).on('error', fail)
    socket.on('close', () => fail(new Error('the connection was closed before there was an answer')))
    const connection: Connection = { begin, pause, resume, fail }
    open.add(connection)
    return connection
  }

  function close(): void {
    for (const { taker } of waiting.splice(0)) taker.fail(new Error('closed'))
    for (const connection of [...open]) connection.fail(new Error('closed'))
  }

  return { post, send, close }
}

function collecting(resolve: (answer: Answer) => void, reject: (error: unknown) => void, over: () => void): Taker {
  let status = 0
  let size = 0
  const pieces: Buffer[] = []
  return {
    begin(its) {
      status = its
    },
    data(piece) {
      const most = MOST_BODY_BYTES - size
      if (most <= 0) return
      pieces.push(Buffer.from(piece.subarray(0, most)))
      size += piece.length
    },
    end() {
      over()
      resolve({ status, body: Buffer.concat(pieces) })
    },
    fail(error) {
      over()
      reject(error)
    },
  }
}

function write(socket: Socket, { head, body }: Job): void {
  const [only] = body
  if (body.length === 1 && only!.length <= SMALL_BYTES) {
    const bytes = Buffer.allocUnsafe(head.length + only!.length)
    bytes.write(head, 'latin1')
    bytes.set(only!, head.length)
    socket.write(bytes)
    return
  }
  // All that is written before it is uncorked is one writev().
  socket.cork()
  socket.write(head, 'latin1')
  for (const bytes of body) socket.write(bytes)
  socket.uncork()
}
