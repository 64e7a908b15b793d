// The two ways to send a request of the load: OTLP over HTTP and over gRPC, as bytes, so that sending costs little.

import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { connect, type ClientHttp2Session, type IncomingHttpHeaders, type SecureClientSessionOptions } from 'node:http2'

export interface Sender {
  /** Resolves when the request is acknowledged. */
  send(body: Buffer): Promise<void>
  close(): void
}

export function httpSender(url: string, connections: number): Sender {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  return {
    async send(body) {
      const headers = { 'content-type': 'application/x-protobuf', 'content-length': body.length }
      const sent = request(`${url}/v1/traces`, { method: 'POST', agent, headers })
      sent.end(body)
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'end')
      if (response.statusCode !== 200) throw new Error(`HTTP ${response.statusCode}`)
    },
    close: () => agent.destroy(),
  }
}

const CONNECTIONS = 4
export const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
const HEADERS = { ':method': 'POST', ':path': EXPORT, 'content-type': 'application/grpc', te: 'trailers' }
/** MB of requests that wait. */
const WAITING = 1_000

/** One message each way over node:http2: two thirds of what `@grpc/grpc-js`, which is built upon it, costs. */
export function grpcSender(target: string): Sender {
  const sessions = http2Sessions(`http://${target}`, { maxSessionMemory: WAITING })
  return {
    send(body) {
      return new Promise((resolve, reject) => {
        const call = sessions.next().request(HEADERS)
        let status: unknown
        const look = (fields: IncomingHttpHeaders) => void (status ??= fields['grpc-status'])
        call.on('response', look).on('trailers', look).on('error', reject)
        call.on('close', () => (status === '0' ? resolve() : reject(new Error(`gRPC status ${status}`))))
        call.resume().write(grpcPrefix(false, body.length))
        call.end(body)
      })
    },
    close: () => sessions.open.forEach((session) => session.close()),
  }
}

/** Connections, one after the other; where one has ended, another in its place. */
export function http2Sessions(url: string, options: SecureClientSessionOptions = {}) {
  const open: ClientHttp2Session[] = []
  let turn = 0
  function next(): ClientHttp2Session {
    const place = turn++ % CONNECTIONS
    const known = open[place]
    if (known && !known.closed && !known.destroyed) return known
    // What fails with it is told by its requests.
    const fresh = connect(url, options).on('error', () => {})
    return (open[place] = fresh)
  }
  return { next, open }
}

export const GRPC_PREFIX_BYTES = 5

/** Of a gRPC message: whether it is compressed, and its length. */
export function grpcPrefix(compressed: boolean, length: number): Buffer {
  const bytes = Buffer.alloc(GRPC_PREFIX_BYTES)
  bytes[0] = compressed ? 1 : 0
  bytes.writeUInt32BE(length, 1)
  return bytes
}
