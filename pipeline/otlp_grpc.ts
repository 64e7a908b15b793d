// OTLP over gRPC: one unary method a signal. Messages stay bytes; grpc-js does the framing, the
// compression and the size limit.

import { createRequire } from 'node:module'

import {
  logVerbosity,
  Metadata,
  Server,
  ServerCredentials,
  setLogVerbosity,
  type handleUnaryCall,
  type ServiceDefinition,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'

import { exportResponse, rpcStatus } from '../data/otlp_answer.ts'
import { listenError, type Address } from './listen.ts'
import { failureOf, type OtlpSignal, type Take } from './otlp_server.ts'

export interface GrpcOptions {
  readonly address: Address
  /** The option that sets the address, for the error when it is taken. */
  readonly option: string
  readonly maxMessageBytes: number
  /** A signal that is not among them is UNIMPLEMENTED. */
  readonly signals: readonly OtlpSignal[]
}

/** Listens. `stop` resolves when the calls in flight are answered. */
export async function serveGrpc({ address, option, maxMessageBytes, signals }: GrpcOptions, take: Take) {
  setLogVerbosity(logVerbosity.NONE) // it would write to the console by itself; every failure is reported by us
  const server = new Server({
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc-node.flow_control_window': 8 * 1024 * 1024, // the default of 64 KiB makes every large batch wait for round trips
  })
  for (const signal of signals) server.addService(service(signal), { Export: exporting(signal, take) })
  const port = await bind(server, address, option)
  const stop = () => new Promise<void>((resolve) => server.tryShutdown(() => resolve()))
  return { port, stop }
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
      const rejected = await take(signal, 'protobuf', () => Promise.resolve(call.request))
      callback(null, exportResponse(signal, rejected, 'protobuf'))
    } catch (error) {
      const failure = failureOf(error)
      const metadata = new Metadata()
      metadata.set('grpc-status-details-bin', rpcStatus(failure, 'protobuf'))
      callback({ code: failure.code, details: failure.message, metadata })
    }
  }
}

async function bind(server: Server, address: Address, option: string): Promise<number> {
  const host = address.host.includes(':') ? `[${address.host}]` : address.host
  try {
    return await new Promise((resolve, reject) => {
      server.bindAsync(`${host}:${address.port}`, ServerCredentials.createInsecure(), (error, port) =>
        error ? reject(error) : resolve(port),
      )
    })
  } catch (error) {
    const message = (error as Error).message
    const code = /\bE[A-Z]{4,}\b/.exec(message)?.[0]
    throw listenError(Object.assign(new Error(message, { cause: error }), { code }), address, option)
  }
}
