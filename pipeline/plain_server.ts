// A server of HTTP/1.1 that reads plain requests itself and leaves every other connection to node:http.

import type { Server as HttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'

import type { HttpService } from './http_exchange.ts'
import { CHECK_MS, IDLE_MS, MAX_CONNECTIONS, type HttpLimit } from './http_server.ts'
import { createMessageMemory, type Lender } from './message_memory.ts'
import { createPlainConnection, type PlainConnection, type PlainService } from './plain_http.ts'
import type { Pool } from './pool.ts'

export interface PlainServerOptions {
  /** Does what is not plain, by the same handler. It does not listen. */
  readonly others: HttpServer
  /** Requests for any other are not plain. */
  readonly paths: PlainService['paths']
  readonly serve: HttpService
  readonly pool: Pool
  /** Where bodies are kept until their answer is over: the pool, unless they may be needed for longer. */
  readonly bodies?: Lender
  readonly limited: (limit: HttpLimit) => void
}

/** `close` stops listening and resolves when every connection has ended: at once, or with its next answer. */
export function createPlainServer({ others, limited, bodies, ...options }: PlainServerOptions) {
  /** With what reads them; undefined where node:http does. */
  const connections = new Map<Socket, PlainConnection | undefined>()
  let isStopping = false
  const { headersTimeout, requestTimeout } = others
  const service: PlainService = {
    ...options,
    memory: createMessageMemory(bodies ?? options.pool),
    headersTimeout,
    requestTimeout,
    idleTimeout: IDLE_MS,
    handOn(socket) {
      connections.set(socket, undefined)
      others.emit('connection', socket)
    },
    fail: (socket, code) => void others.emit('clientError', Object.assign(new Error(code), { code }), socket),
    isStopping: () => isStopping,
  }

  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true })
  server.on('connection', (accepted: Socket) => {
    if (connections.size >= MAX_CONNECTIONS) {
      limited('connections')
      return void accepted.destroy()
    }
    const connection = createPlainConnection(accepted, service)
    const { socket } = connection
    connections.set(socket, connection)
    socket.on('close', () => connections.delete(socket))
    socket.resume()
  })

  others.emit('listening') // or it would not look for requests that take too long
  const sweeper = setInterval(sweep, Math.min(CHECK_MS, headersTimeout, requestTimeout)).unref()
  function sweep(): void {
    const now = performance.now()
    for (const connection of connections.values()) connection?.sweep(now)
  }

  async function close(): Promise<void> {
    isStopping = true
    server.close()
    others.close()
    for (const connection of connections.values()) connection?.stop()
    await Promise.all([...connections.keys()].map((socket) => new Promise((resolve) => socket.once('close', resolve))))
    clearInterval(sweeper)
  }

  return { server, close }
}
