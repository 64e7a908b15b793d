// A unary gRPC server on node:net, framing HTTP/2 itself. It takes a quarter to a fourteenth of the CPU of @grpc/grpc-js (npm run
// bench -- grpc), which makes streams and objects of what is one message in and one out. Not here: streaming methods, compressed
// responses, server reflection.

import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

import type { Service } from './calls.ts'
import { createConnection, type Connection } from './connection.ts'
import { readDirectly } from '../direct_reads.ts'
import { DEFAULT_LIMITS, type GrpcLimits, type GrpcServer, type GrpcServerOptions } from './grpc.ts'
import { createGunzip } from './gunzip.ts'
import { createPool } from '../pool.ts'

const SWEEP_MS = 250
const SWEEPS_PER_TRIM = 40

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const limits = withRoom({ ...DEFAULT_LIMITS, ...options })
  const pool = createPool(limits.maxBytesInFlight, () => options.limited('bytes_in_flight'))
  const connections = new Set<Connection>()
  /** With TLS there are more of them than connections: those that still shake hands. */
  const sockets = new Set<Socket>()
  let handled = 0
  let congested = false
  let sweeper: NodeJS.Timeout | undefined
  let sweeps = 0

  const service: Service = {
    ...options,
    limits,
    pool,
    gunzip: createGunzip(pool, limits.maxMessageBytes, options.limited),
    congested: () => congested,
    handling(bytes) {
      handled += bytes
      if (handled > limits.maxBytesInFlight / 2) congested = true
      else if (congested && handled < limits.maxBytesInFlight / 4) {
        congested = false
        for (const connection of connections) connection.letSend()
      }
    },
  }

  const { host, port, tls } = options
  const server = tls ? createTlsServer({ ...tls.options, ALPNProtocols: ['h2'] }) : createServer({ pauseOnConnect: true })
  if ('setSecureContext' in server) tls?.guard(server)
  server.on('connection', (accepted: Socket) => {
    if (sockets.size >= limits.maxConnections) {
      options.limited('connections')
      return void accepted.destroy()
    }
    const socket = tls ? accepted : readDirectly(accepted, { receive: (piece) => connection.receive(piece) })
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    if (tls) return
    const connection = serve(socket)
    socket.resume()
  })
  server.on('secureConnection', (socket: Socket) => socket.on('data', serve(socket).receive))

  function serve(socket: Socket): Connection {
    const connection = createConnection(socket.setNoDelay(true), service)
    connections.add(connection)
    socket.on('close', () => connections.delete(connection))
    if (!server.listening) connection.drain() // a TLS handshake that outlasted the server
    return connection
  }

  function sweep(): void {
    const now = performance.now()
    for (const connection of connections) connection.sweep(now)
    if (++sweeps % SWEEPS_PER_TRIM === 0) pool.trim()
  }

  return {
    async listen() {
      server.listen(port, host)
      await once(server, 'listening')
      sweeper = setInterval(sweep, SWEEP_MS).unref()
      server.on('error', options.onError) // such as too many open files at accept()
      return server.address() as AddressInfo
    },
    async close(graceMs) {
      if (!server.listening) return
      server.close()
      for (const connection of connections) connection.drain()
      const cutOff = setTimeout(() => sockets.forEach((socket) => socket.destroy()), graceMs)
      await Promise.all([...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve))))
      clearTimeout(cutOff)
      clearInterval(sweeper)
    },
    stats: () => ({
      connections: connections.size,
      bytesInFlight: pool.used(),
      calls: [...connections].reduce((sum, connection) => sum + connection.calls(), 0),
    }),
  }
}

/** The largest message must find room, even beside another and in a buffer that is a quarter larger. */
function withRoom(limits: GrpcLimits): GrpcLimits {
  return { ...limits, maxBytesInFlight: Math.max(limits.maxBytesInFlight, 2.5 * limits.maxMessageBytes) }
}
