// An HTTP server that bounds what a client can make it hold: connections, headers, and the time in which a request must come. With TLS
// where that is asked for.

import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'

import type { ServerTls } from './tls.ts'

export interface HttpServerOptions {
  readonly tls?: ServerTls | undefined
  /** How long a request's headers may take, and the whole of it. */
  readonly headersTimeout?: number
  readonly requestTimeout?: number
  /** Told each time a client runs into a limit. */
  readonly limited?: (limit: HttpLimit) => void
}

export type HttpLimit = 'bytes_in_flight' | 'connections' | 'header_bytes' | 'request_timeout'

/** Longer than any exporter's interval, so that no client sends into a connection that is just being closed. */
export const IDLE_MS = 120_000
export const MAX_CONNECTIONS = 4_096
const MAX_HEADER_BYTES = 16 * 1024
/** How often clients that are too slow are looked for. */
export const CHECK_MS = 1_000

export function createHttpServer(
  { tls, headersTimeout = 60_000, requestTimeout = 60_000, limited = () => {} }: HttpServerOptions,
  handle: RequestListener,
): Server {
  const limits: ServerOptions = {
    headersTimeout: Math.min(headersTimeout, requestTimeout),
    requestTimeout,
    connectionsCheckingInterval: Math.min(CHECK_MS, headersTimeout, requestTimeout),
    keepAliveTimeout: IDLE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  }
  const server = tls ? createTlsServer({ ...tls.options, ...limits }, handle) : createServer(limits, handle)
  if ('setSecureContext' in server) tls?.guard(server)
  server.maxConnections = MAX_CONNECTIONS
  server.on('drop', () => limited('connections'))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const { status, limit } = CLIENT_ERRORS[error.code ?? ''] ?? { status: '400 Bad Request' }
    if (limit) limited(limit)
    if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`)
    socket.destroySoon()
  })
  return server
}

/** What node says of a request that it could not read. */
const CLIENT_ERRORS: Readonly<Record<string, { status: string; limit: HttpLimit }>> = {
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', limit: 'request_timeout' },
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', limit: 'header_bytes' },
}
