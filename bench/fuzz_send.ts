// Sends what fuzz_requests.ts makes, by clients that cost little.

import http2 from 'node:http2'

import { Pool } from 'undici'

import type { FuzzRequest } from './fuzz_requests.ts'

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
const SESSIONS = 4

export function fuzzSender(urls: { http: string; grpc: string }, connections: number): FuzzSender {
  const pool = new Pool(urls.http, { connections, headersTimeout: ANSWER_MS, bodyTimeout: ANSWER_MS })
  const sessions: http2.ClientHttp2Session[] = []
  let turn = 0

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

  /** One after the other; where one has ended, another in its place. */
  function session(): http2.ClientHttp2Session {
    const i = turn++ % SESSIONS
    const one = sessions[i]
    if (one && !one.closed && !one.destroyed) return one
    return (sessions[i] = http2.connect(urls.grpc).on('error', () => {}))
  }

  /** By hand: no gRPC library sends what is damaged. */
  function byGrpc({ signal, gzip, body }: FuzzRequest): Promise<Answer> {
    const stream = session().request({ ...CALL[signal], ...(gzip && { 'grpc-encoding': 'gzip' }) })
    stream.end(Buffer.concat([prefix(gzip, body.length), body]))
    return new Promise((resolve) => {
      const chunks: Buffer[] = []
      let status = 'grpc no status'
      const said = (headers: http2.IncomingHttpHeaders) => {
        if (headers['grpc-status'] !== undefined) status = `grpc ${String(headers['grpc-status'])}`
      }
      stream.setTimeout(ANSWER_MS, () => stream.destroy(new Error('hangs')))
      stream.on('response', said).on('trailers', said)
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('error', (error) => (status = `grpc ${error.message}`))
      stream.on('close', () => resolve({ status, body: Buffer.concat(chunks).subarray(PREFIX_BYTES) }))
    })
  }

  return {
    send: (request) => (request.transport === 'http' ? byHttp(request) : byGrpc(request)),
    close() {
      void pool.destroy()
      for (const one of sessions) one.destroy()
    },
  }
}

const NOTHING = Buffer.alloc(0)

/** Of a gRPC message: whether it is compressed, and its length. */
function prefix(compressed: boolean, length: number): Buffer {
  const bytes = Buffer.alloc(PREFIX_BYTES)
  bytes[0] = compressed ? 1 : 0
  bytes.writeUInt32BE(length, 1)
  return bytes
}
const PREFIX_BYTES = 5

const call = (service: string) => ({
  ':method': 'POST',
  ':path': `/opentelemetry.proto.collector.${service}/Export`,
  'content-type': 'application/grpc',
  te: 'trailers',
})
const CALL = { traces: call('trace.v1.TraceService'), logs: call('logs.v1.LogsService') }
