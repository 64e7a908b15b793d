// The same server on @grpc/grpc-js: the reference that server.ts is tested against, and the choice where its cost does not matter.
// It bounds messages, streams and time, but not the memory of all messages together.

import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

import {
  logVerbosity,
  Metadata,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  setLogVerbosity,
  type handleUnaryCall,
  type ServerInterceptingCallInterface,
  type ServerUnaryCall,
} from '@grpc/grpc-js'

import { DEFAULT_LIMITS, type GrpcCall, type GrpcLimits, type GrpcMethod, type GrpcServer, type GrpcServerOptions } from './grpc.ts'

/** The default of 64 KiB makes every large message wait for round trips. */
const FLOW_CONTROL_WINDOW = 8 << 20

export function createGrpcJsServer(options: GrpcServerOptions): GrpcServer {
  setLogVerbosity(logVerbosity.NONE) // it would write to the console by itself
  const { host, port, tls, authenticate, untaken } = options
  const limits = { ...DEFAULT_LIMITS, ...options }
  const grpc = new Server({ ...channelOptions(limits), interceptors: [watching] })
  for (const [path, method] of options.methods) grpc.register(path, handling(method), asIs, asIs, 'unary')
  let calls = 0

  // grpc-js gets its connections from us, for it bounds neither their number nor the version of TLS.
  const { injectConnection } = grpc.createConnectionInjector(ServerCredentials.createInsecure())
  const open = (socket: Socket) => injectConnection(socket.on('error', () => {}))
  const server = tls ? createTlsServer({ ...tls.options, ALPNProtocols: ['h2'] }, open) : createServer(open)
  if ('setSecureContext' in server) tls?.guard(server)
  server.maxConnections = limits.maxConnections
  server.on('drop', () => options.limited('connections'))

  /** Asks who calls when a call's metadata has come, which is before its message does, and sees whether its method gets that. */
  function watching(_method: unknown, call: ServerInterceptingCallInterface): ServerInterceptingCall {
    let messages = 0
    let isTold = false
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          async onReceiveMetadata(metadata, pass) {
            try {
              await authenticate?.({ metadata: (name) => valueOf(metadata, name), deadline: undefined, cancelled: false })
            } catch (error) {
              isTold = true
              return call.sendStatus(statusOf(error))
            }
            pass(metadata)
          },
          onReceiveMessage(message, pass) {
            messages++
            pass(message)
          },
          onReceiveHalfClose(pass) {
            isTold = messages === 1
            pass()
          },
          // The end of each call, answered or not.
          onCancel: () => void (isTold || untaken?.()),
        }),
    })
  }

  function handling(method: GrpcMethod): handleUnaryCall<Buffer, Buffer> {
    return async (call, callback) => {
      calls++
      try {
        callback(null, Buffer.from(await method(call.request, asCall(call))))
      } catch (error) {
        callback(statusOf(error))
      } finally {
        calls--
      }
    }
  }

  function statusOf(error: unknown) {
    const { code, message, details } = options.errorOf(error)
    const metadata = new Metadata()
    if (details) metadata.set('grpc-status-details-bin', Buffer.from(details))
    return { code, details: message, metadata }
  }

  return {
    async listen() {
      server.listen(port, host)
      await once(server, 'listening')
      server.on('error', options.onError)
      return server.address() as AddressInfo
    },
    async close(graceMs) {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      const cutOff = setTimeout(() => grpc.forceShutdown(), graceMs)
      await new Promise<void>((resolve) => grpc.tryShutdown(() => resolve()))
      await closed
      clearTimeout(cutOff)
    },
    stats: () => ({ connections: undefined, bytesInFlight: undefined, calls }),
  }
}

const asIs = (bytes: Buffer) => bytes

function channelOptions(limits: GrpcLimits) {
  const times = {
    'grpc.keepalive_time_ms': limits.keepaliveTimeMs,
    'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    'grpc.max_connection_idle_ms': limits.maxConnectionIdleMs,
    'grpc.max_connection_age_ms': limits.maxConnectionAgeMs,
    'grpc.max_connection_age_grace_ms': limits.maxConnectionAgeGraceMs,
  }
  return {
    'grpc.max_receive_message_length': limits.maxMessageBytes,
    'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
    'grpc-node.flow_control_window': FLOW_CONTROL_WINDOW,
    ...Object.fromEntries(Object.entries(times).filter(([, time]) => Number.isFinite(time))),
  }
}

function asCall(call: ServerUnaryCall<Buffer, Buffer>): GrpcCall {
  const deadline = Number(call.getDeadline())
  return {
    metadata: (name) => valueOf(call.metadata, name),
    deadline: Number.isFinite(deadline) ? deadline - Date.now() + performance.now() : undefined,
    get cancelled() {
      return call.cancelled
    },
  }
}

function valueOf(metadata: Metadata, name: string): string | undefined {
  const values = metadata.get(name)
  return values.length === 0 ? undefined : values.join(',')
}
