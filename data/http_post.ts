// POST over connections that last, for requests that come often and whose bytes are there: what node:http does for one of them, through a
// stream for the request and another for its answer, costs several times as much CPU as the system calls.

import type { OnReadOpts, Socket } from 'node:net'

import { answerReader, BadAnswer, type Answer, type AnswerReader } from './http_answer.ts'

export interface Posting {
  /** Opens a connection to the server, which is read as these options say. */
  readonly connect: (options: ConnectOptions) => Socket
  /** Connections at once. Past that, requests wait. */
  readonly connections: number
  /** A server that says nothing, and takes nothing, for so long is given up. */
  readonly timeoutMs: number
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
  /** Ends all connections. */
  close(): void
}

interface Job {
  readonly head: string
  readonly body: readonly Buffer[]
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
  connection?: Connection
}

interface Connection {
  begin(job: Job): void
  /** Ends it, and the request that it is busy with. */
  fail(error: Error): void
}

/** Servers end connections that rest for longer, and one that ends just when it is used again fails its request. */
const IDLE_MS = 2_500
/** For all connections, since what is read is looked at and copied at once. */
const READ_BYTES = 64 << 10
let common: Buffer | undefined

export function posting({ connect, connections, timeoutMs }: Posting): Poster {
  const open = new Set<Connection>()
  const resting: Connection[] = []
  const waiting: Job[] = []

  function post(head: string, body: readonly Buffer[], abort?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (!abort) return start({ head, body, resolve, reject })
      if (abort.aborted) return reject(abort.reason)
      const over = () => abort.removeEventListener('abort', stop)
      const stop = () => {
        const place = waiting.indexOf(job)
        if (place >= 0) waiting.splice(place, 1)
        job.reject(abort.reason)
        job.connection?.fail(new Error('aborted'))
      }
      const job: Job = {
        head,
        body,
        resolve(answer) {
          over()
          resolve(answer)
        },
        reject(error) {
          over()
          reject(error)
        },
      }
      abort.addEventListener('abort', stop)
      start(job)
    })
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
      // All that is written before it is uncorked is one writev().
      socket.cork()
      socket.write(its.head, 'latin1')
      for (const bytes of its.body) socket.write(bytes)
      socket.uncork()
    }

    function read(bytes: number, into: Uint8Array): boolean {
      silentMs = 0
      if (!job) {
        fail(new BadAnswer('there was no request'))
        return true
      }
      reader ??= answerReader()
      try {
        settle(reader.take((into as Buffer).subarray(0, bytes)))
      } catch (error) {
        fail(new Error(`a server's answer cannot be read: ${(error as Error).message}`))
      }
      return true
    }

    function settle(answer: Answer | undefined): void {
      if (!answer) return
      const its = job!
      job = undefined
      its.resolve(answer)
      // A server that answers before it has read the request will not read the rest of it.
      if (!answer.lasting || socket.writableLength > 0) return fail(new Error('done'))
      socket.unref()
      resting.push(connection)
      next()
    }

    function fail(error: Error): void {
      if (!open.delete(connection)) return
      const place = resting.indexOf(connection)
      if (place >= 0) resting.splice(place, 1)
      socket.destroy()
      job?.reject(error)
      next()
    }

    /** The clock starts again with each piece that is read or written, which is all it costs. */
    function onTimeout(): void {
      silentMs += turnMs
      if (!job) fail(new Error('rested'))
      else if (silentMs >= timeoutMs) fail(new Error(`no answer in ${timeoutMs / 1_000} s`))
      else socket.setTimeout(turnMs)
    }

    function onEnd(): void {
      if (job && reader) settle(reader.end())
      fail(new Error('the server closed the connection before it answered'))
    }

    socket.setTimeout(turnMs).on('timeout', onTimeout).on('end', onEnd).on('error', fail)
    socket.on('close', () => fail(new Error('the connection was closed before there was an answer')))
    const connection: Connection = { begin, fail }
    open.add(connection)
    return connection
  }

  function close(): void {
    for (const job of waiting.splice(0)) job.reject(new Error('closed'))
    for (const connection of [...open]) connection.fail(new Error('closed'))
  }

  return { post, close }
}
