// Sends what fuzz_requests.ts makes, by clients that cost little.

import type { IncomingHttpHeaders } from 'node:http2'

import { Pool } from 'undici'

import type { FuzzRequest } from './fuzz_requests.ts'
import { GRPC_PREFIX_BYTES, grpcPrefix, http2Sessions } from './send.ts'

export interface Answer {
  /** In two words, such as `http 200`, or why there is none. */
  readonly status: string
  /** The response message. */
  readonly body: Buffer
}

export interface FuzzSender {
  send(request: FuzzRequest): Promise<Answer>
  close(): void
}

/** A machine that is busy with other things may take a minute; what hangs takes for ever. */
const ANSWER_MS = 300_000

export function fuzzSender(urls: { http: string; grpc: string }, connections: number): FuzzSender {
  const pool = new Pool(urls.http, { connections, headersTimeout: ANSWER_MS, bodyTimeout: ANSWER_MS })
  const sessions = http2Sessions(urls.grpc)

  function byHttp({ signal, json, gzip, body }: FuzzRequest): Promise<Answer> {
    const headers = { 'content-type': json ? 'application/json' : 'application/x-protobuf', ...(gzip && { 'content-encoding': 'gzip' }) }
    return new Promise((resolve) => {
      const chunks: Buffer[] = []
      let status = ''
      pool.dispatch(
        { method: 'POST', path: `/v1/${signal}`, headers, body },
        {
          onConnect: () => {},
          onHeaders(code) {
            status = `http ${code}`
            return true
          },
          onData: (chunk) => chunks.push(chunk) > 0,
          onComplete: () => resolve({ status, body: Buffer.concat(chunks) }),
          onError: (error) => resolve({ status: `http ${error.message}`, body: NOTHING }),
        },
      )
    })
  }

  /** By hand: no gRPC library sends what is damaged. */
  function byGrpc({ signal, gzip, body }: FuzzRequest): Promise<Answer> {
    const stream = sessions.next().request({ ...CALL[signal], ...(gzip && { 'grpc-encoding': 'gzip' }) })
    stream.end(Buffer.concat([grpcPrefix(gzip, body.length), body]))
    return new Promise((resolve) => {
      const chunks: Buffer[] = []
      let status = 'grpc no status'
      const said = (headers: IncomingHttpHeaders) => {
        if (headers['grpc-status'] !== undefined) status = `grpc ${String(headers['grpc-status'])}`
      }
      stream.setTimeout(ANSWER_MS, () => stream.destroy(new Error('hangs')))
      stream.on('response', said).on('trailers', said)
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('error', (error) => (status = `grpc ${error.message}`))
      stream.on('close', () => resolve({ status, body: Buffer.concat(chunks).subarray(GRPC_PREFIX_BYTES) }))
    })
  }

  return {
    send: (request) => (request.transport === 'http' ? byHttp(request) : byGrpc(request)),
    close() {
      void pool.destroy()
      for (const one of sessions.open) one.destroy()
    },
  }
}

const NOTHING = Buffer.alloc(0)

const call = (service: string) => ({
  ':method': 'POST',
  ':path': `/opentelemetry.proto.collector.${service}/Export`,
  'content-type': 'application/grpc',
  te: 'trailers',
})
const CALL = { traces: call('trace.v1.TraceService'), logs: call('logs.v1.LogsService') }
