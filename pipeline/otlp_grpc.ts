// OTLP over gRPC: one unary method a signal. Messages stay bytes; grpc-js does the framing, the
// compression and the size limit.

import { createRequire } from 'node:module'
import { createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

import {
  logVerbosity,
  Metadata,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  setLogVerbosity,
  type handleUnaryCall,
  type ServerInterceptor,
  type ServiceDefinition,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'

import { exportResponse, rpcStatus } from '../data/otlp_answer.ts'
import type { Authenticate } from './auth.ts'
import { close, listen, type Address } from './listen.ts'
import { failureOf, type OtlpSignal, type Take } from './otlp_server.ts'
import type { ServerTls } from './tls.ts'

export interface GrpcOptions {
  readonly address: Address
  /** The option that sets the address, for the error when it is taken. */
  readonly option: string
  readonly tls?: ServerTls | undefined
  readonly authenticate?: Authenticate | undefined
  readonly maxMessageBytes: number
  /** A signal that is not among them is UNIMPLEMENTED. */
  readonly signals: readonly OtlpSignal[]
  /** Told each time a client runs into a limit. */
  readonly limited: (limit: 'connections') => void
}

const MAX_CONNECTIONS = 4_096

/** Listens. `stop` resolves when the calls in flight are answered. */
export async function serveGrpc({ address, option, tls, authenticate, maxMessageBytes, signals, limited }: GrpcOptions, take: Take) {
  setLogVerbosity(logVerbosity.NONE) // it would write to the console by itself; every failure is reported by us
  const calls = new Server({
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc-node.flow_control_window': 8 * 1024 * 1024, // the default of 64 KiB makes every large batch wait for round trips
    interceptors: authenticate ? [guarding(authenticate)] : [],
  })
  for (const signal of signals) calls.addService(service(signal), { Export: exporting(signal, take) })

  // grpc-js gets its connections from us, for it bounds neither their number nor the version of TLS.
  const { injectConnection } = calls.createConnectionInjector(ServerCredentials.createInsecure())
  const open = (socket: Socket) => injectConnection(socket.on('error', () => {}))
  const server = tls ? createTlsServer({ ...tls.options, ALPNProtocols: ['h2'] }, open) : createServer(open)
  if ('setSecureContext' in server) tls?.guard(server)
  server.maxConnections = MAX_CONNECTIONS
  server.on('drop', () => limited('connections'))

  const { port } = await listen(server, address, option)
  async function stop(): Promise<void> {
    const closed = close(server)
    await new Promise<void>((resolve) => calls.tryShutdown(() => resolve()))
    await closed
  }
  return { port, stop }
}

/** Asks who calls when a call's metadata has come, which is before its message does. */
function guarding(authenticate: Authenticate): ServerInterceptor {
  return (_method, call) =>
    new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          async onReceiveMetadata(metadata, pass) {
            try {
              await authenticate((name) => metadata.get(name)[0]?.toString())
            } catch (error) {
              return call.sendStatus(statusOf(error))
            }
            pass(metadata)
          },
        }),
    })
}

function statusOf(error: unknown) {
  const failure = failureOf(error)
  const metadata = new Metadata()
  metadata.set('grpc-status-details-bin', rpcStatus(failure, 'protobuf'))
  return { code: failure.code, details: failure.message, metadata }
}

const SERVICE = {
  traces: ['opentelemetry/proto/collector/trace/v1/trace_service.proto', 'opentelemetry.proto.collector.trace.v1.TraceService'],
  logs: ['opentelemetry/proto/collector/logs/v1/logs_service.proto', 'opentelemetry.proto.collector.logs.v1.LogsService'],
} as const

/** The paths as proto/ has them, with bytes in and bytes out. */
function service(signal: OtlpSignal): ServiceDefinition {
  const [file, name] = SERVICE[signal]
  const { resolve } = createRequire(import.meta.url)
  const path = resolve(`#proto/${file}`)
  const loaded = loadSync(path, { includeDirs: [path.slice(0, -file.length)] })[name] as ServiceDefinition
  const asIs = (bytes: Buffer) => bytes
  return Object.fromEntries(
    Object.entries(loaded).map(([method, definition]) => [
      method,
      { ...definition, requestDeserialize: asIs, requestSerialize: asIs, responseSerialize: asIs, responseDeserialize: asIs },
    ]),
  )
}

function exporting(signal: OtlpSignal, take: Take): handleUnaryCall<Buffer, Buffer> {
  return async (call, callback) => {
    try {
      const rejected = await take(signal, 'protobuf', (lease) => {
        lease.add(call.request.length)
        return Promise.resolve(call.request)
      })
      callback(null, exportResponse(signal, rejected, 'protobuf'))
    } catch (error) {
      callback(statusOf(error))
    }
  }
}
