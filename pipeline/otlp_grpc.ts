// OTLP over gRPC: one unary method a signal, on a server of our own or on grpc-js.

import { rpcStatus } from '../data/otlp_answer.ts'
import type { Lease } from './admission.ts'
import type { Authenticate } from './auth.ts'
import type { GrpcMethod, GrpcServerOptions, GrpcStatus } from './grpc/grpc.ts'
import { createGrpcJsServer } from './grpc/grpc_js.ts'
import { createGrpcServer } from './grpc/server.ts'
import { listenError, type Address } from './listen.ts'
import { failureOf, type OtlpSignal } from './otlp_server.ts'
import type { Taking } from './otlp_take.ts'

const SERVERS = { auto: createGrpcServer, own: createGrpcServer, 'grpc-js': createGrpcJsServer } as const
export type Transport = keyof typeof SERVERS
export const TRANSPORTS = Object.keys(SERVERS) as Transport[]

export interface GrpcOptions extends Pick<GrpcServerOptions, 'tls' | 'onError' | 'limited'> {
  readonly transport: Transport
  readonly address: Address
  /** The option that sets the address, for the error when it is taken. */
  readonly option: string
  readonly authenticate?: Authenticate | undefined
  readonly maxMessageBytes: number
  readonly maxBytesInFlight: number
  /** A signal that is not among them is UNIMPLEMENTED. */
  readonly signals: readonly OtlpSignal[]
}

const MAX_CONNECTIONS = 4_096
/** Longer than any client waits for an answer. */
const GRACE_MS = 60_000

const PATH = {
  traces: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
  logs: '/opentelemetry.proto.collector.logs.v1.LogsService/Export',
} as const

/** Listens. `stop` resolves when the calls in flight are answered. */
export async function serveGrpc(
  { transport, address, option, authenticate, signals, ...options }: GrpcOptions,
  { take, copy, taker, untaken }: Taking,
) {
  const server = SERVERS[transport]({
    ...options,
    ...address,
    maxConnections: MAX_CONNECTIONS,
    methods: new Map(signals.map((signal) => [PATH[signal], exporting(signal, take)])),
    copies: new Map(signals.map((signal) => [PATH[signal], copy(signal)])),
    takers: new Map(signals.map((signal) => [PATH[signal], taker(signal)])),
    authenticate: authenticate && ((call) => authenticate(call.metadata)),
    errorOf: statusOf,
    untaken,
  })
  const { port } = await server.listen().catch((error: unknown) => {
    throw listenError(error, address, option)
  })
  return { port, stop: () => server.close(GRACE_MS) }
}

function exporting(signal: OtlpSignal, take: Taking['take']): GrpcMethod {
  return (message) => {
    const read = (lease: Lease) => {
      lease.add(message.length)
      return message
    }
    return take(signal, 'protobuf', read)
  }
}

function statusOf(error: unknown): GrpcStatus {
  const failure = failureOf(error)
  return { code: failure.code, message: failure.message, details: rpcStatus(failure, 'protobuf') }
}
