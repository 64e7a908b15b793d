// The same server on @grpc/grpc-js: the reference that server.ts is tested against, and the choice where its cost does not matter.
// It bounds messages, streams and time, but not the connections, nor the memory of all messages together.

import type { AddressInfo } from 'node:net'
import type { TlsOptions } from 'node:tls'

import {
  logVerbosity,
  Metadata,
  Server,
  ServerCredentials,
  setLogVerbosity,
  type handleUnaryCall,
  type ServerUnaryCall,
} from '@grpc/grpc-js'

import { DEFAULT_LIMITS, type GrpcCall, type GrpcLimits, type GrpcMethod, type GrpcServer, type GrpcServerOptions } from './grpc.ts'

/** The default of 64 KiB makes every large message wait for round trips. */
const FLOW_CONTROL_WINDOW = 8 << 20

export function createGrpcJsServer(options: GrpcServerOptions): GrpcServer {
  setLogVerbosity(logVerbosity.NONE) // it would write to the console by itself
  const server = new Server(channelOptions({ ...DEFAULT_LIMITS, ...options }))
  let calls = 0
  for (const [path, method] of options.methods) server.register(path, handle(method), asIs, asIs, 'unary')

  function handle(method: GrpcMethod): handleUnaryCall<Buffer, Buffer> {
    return async (call, callback) => {
      calls++
      try {
        const seen = asCall(call)
        options.admit?.(seen, call.request.length)
        callback(null, Buffer.from(await method(call.request, seen)))
      } catch (error) {
        const { code, message, details } = options.errorOf(error)
        const metadata = new Metadata()
        if (details) metadata.set('grpc-status-details-bin', Buffer.from(details))
        callback({ code, details: message, metadata })
      } finally {
        calls--
      }
    }
  }

  return {
    async listen() {
      const { host, port, tls } = options
      const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
      return new Promise<AddressInfo>((resolve, reject) => {
        server.bindAsync(address, credentials(tls), (error, bound) => {
          if (error) reject(Object.assign(error, { code: /\bE[A-Z]{4,}\b/.exec(error.message)?.[0] }))
          else resolve({ address: host, family: host.includes(':') ? 'IPv6' : 'IPv4', port: bound })
        })
      })
    },
    async close(graceMs) {
      const cutOff = setTimeout(() => server.forceShutdown(), graceMs)
      await new Promise<void>((resolve) => server.tryShutdown(() => resolve()))
      clearTimeout(cutOff)
    },
    stats: () => ({ connections: undefined, calls, bytesInFlight: undefined, limited: {} }),
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

function credentials(tls: TlsOptions | undefined): ServerCredentials {
  if (!tls) return ServerCredentials.createInsecure()
  const [ca, key, cert] = [tls.ca, tls.key, tls.cert].map((pem) => (pem === undefined ? null : Buffer.from(pem as string | Buffer)))
  return ServerCredentials.createSsl(ca!, [{ private_key: key!, cert_chain: cert! }], tls.requestCert)
}

function asCall(call: ServerUnaryCall<Buffer, Buffer>): GrpcCall {
  const deadline = Number(call.getDeadline())
  return {
    metadata(name) {
      const values = call.metadata.get(name)
      return values.length === 0 ? undefined : values.join(',')
    },
    deadline: Number.isFinite(deadline) ? deadline - Date.now() + performance.now() : undefined,
    get cancelled() {
      return call.cancelled
    },
  }
}
