// What a unary gRPC server of ours takes and gives, whichever transport is below: server.ts frames HTTP/2 itself, grpc_js.ts
// lets @grpc/grpc-js do it. Messages are bytes; what they mean is the methods' business.

import type { AddressInfo } from 'node:net'

import type { Copy, Taker } from '../small_requests.ts'
import type { ServerTls } from '../tls.ts'

export interface GrpcCall {
  /** Metadata that the client sent; several values of one name are joined by commas. */
  metadata(name: string): string | undefined
  /** When the client gives up, on the clock of performance.now(). */
  readonly deadline: number | undefined
  /** The client is gone or has given up: nobody will read the answer. */
  readonly cancelled: boolean
}

/**
 * Takes one request and resolves with the response's bytes. `message` may be read until the promise settles, and not a moment
 * longer: its memory then goes to the next request.
 */
export type GrpcMethod = (message: Buffer, call: GrpcCall) => Promise<Uint8Array>

export interface GrpcStatus {
  readonly code: number
  readonly message: string
  /** A google.rpc.Status, sent as grpc-status-details-bin. */
  readonly details?: Uint8Array
}

export interface GrpcLimits {
  /** Largest message, before and after decompression. */
  readonly maxMessageBytes: number
  /** Memory for requests that are coming in or being handled, all connections together; raised to hold two of the largest. */
  readonly maxBytesInFlight: number
  /** Calls at once on one connection; one that was cancelled counts until its method has settled. */
  readonly maxConcurrentStreams: number
  readonly maxConnections: number
  /** Of one request's headers: names, values and 32 bytes each. */
  readonly maxHeaderBytes: number
  /** After this time a request that is still coming in must have come at 16 KB/s or more. */
  readonly bodyTimeoutMs: number
  /** How long a client may leave answers unread, or open a connection without speaking. */
  readonly stallTimeoutMs: number
  /** A connection without calls is closed after this time, any connection after its age, which leaves its calls the grace. */
  readonly maxConnectionIdleMs: number
  readonly maxConnectionAgeMs: number
  readonly maxConnectionAgeGraceMs: number
  /** A silent connection is pinged after the one time and closed when it does not answer within the other. */
  readonly keepaliveTimeMs: number
  readonly keepaliveTimeoutMs: number
}

export interface GrpcServerOptions extends Partial<GrpcLimits> {
  readonly host: string
  readonly port: number
  /** Absent means plain text. */
  readonly tls?: Pick<ServerTls, 'options' | 'guard'> | undefined
  /** By path, e.g. `/opentelemetry.proto.collector.trace.v1.TraceService/Export`. */
  readonly methods: ReadonlyMap<string, GrpcMethod>
  /** By path, what is asked first, where a transport can: it spares small requests a promise, and memory of their own. */
  readonly copies?: ReadonlyMap<string, Copy> | undefined
  /** The same methods without a promise for each call, where a transport can do so: for what is not packed, of somebody who is known. */
  readonly takers?: ReadonlyMap<string, Taker> | undefined
  /**
   * Asked when a call's headers have come. Throws, or rejects, to refuse the call: at once, no byte of its message gets memory; later,
   * its method does not run.
   */
  readonly authenticate?: ((call: GrpcCall) => Promise<void> | undefined) | undefined
  /** What the client is told about an error that a method or `authenticate` threw, or about Refused, when memory is used up. */
  readonly errorOf: (error: unknown) => GrpcStatus
  /**
   * Told of each call that neither its method got nor `authenticate` refused: its message did not come whole, was too large, could not be
   * unpacked, or found no room.
   */
  readonly untaken?: (() => void) | undefined
  /** Told of the server's own mistakes, which cost a connection each. */
  readonly onError: (error: unknown) => void
  /** Told each time a client runs into a limit. */
  readonly limited: (limit: Limit) => void
}

export interface GrpcServer {
  /** Rejects with node's error, e.g. of code EADDRINUSE. */
  listen(): Promise<AddressInfo>
  /** Takes no more calls, resolves when those in flight are answered; after the grace they are cut off. */
  close(graceMs: number): Promise<void>
  stats(): GrpcStats
}

export interface GrpcStats {
  /** Undefined where the transport does not tell. */
  readonly connections: number | undefined
  readonly bytesInFlight: number | undefined
  /** Calls that are coming in, being handled or being answered. */
  readonly calls: number
}

export type Limit =
  | 'answers_unread'
  | 'body_timeout'
  | 'bytes_in_flight'
  | 'concurrent_streams'
  | 'connections'
  | 'header_bytes'
  | 'idle_frames'
  | 'keepalive_timeout'
  | 'message_bytes'
  | 'resets'
  | 'silent_connections'

const NEVER = Infinity

/** The Collector's numbers where it has them; its message limit of 4 MiB is what agents' prompts break. */
export const DEFAULT_LIMITS: GrpcLimits = {
  maxMessageBytes: 64 << 20,
  maxBytesInFlight: 256 << 20,
  maxConcurrentStreams: 1_024,
  maxConnections: 1_024,
  maxHeaderBytes: 16 << 10,
  bodyTimeoutMs: 30_000,
  stallTimeoutMs: 20_000,
  maxConnectionIdleMs: NEVER,
  maxConnectionAgeMs: NEVER,
  maxConnectionAgeGraceMs: NEVER,
  keepaliveTimeMs: 7_200_000,
  keepaliveTimeoutMs: 20_000,
}

/** Status codes that a server gives by itself. */
export const STATUS = {
  ok: 0,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
} as const

/** A call cannot go on, and this is what the client is told. */
export class Failure extends Error implements GrpcStatus {
  override name = 'Failure'
  readonly code: number
  readonly details?: Uint8Array
  constructor(code: number, message: string, details?: Uint8Array) {
    super(message)
    this.code = code
    if (details) this.details = details
  }
}
