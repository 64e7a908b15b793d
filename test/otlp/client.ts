// Sends one request exactly as a case says, byte for byte, and returns what came back.

import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import { connect } from 'node:net'
import { gunzipSync } from 'node:zlib'

export interface Answer {
  status?: number
  grpc_code?: number
  headers: Record<string, string | string[] | undefined>
  body: Buffer
  connection?: 'refused_protocol' | 'closed_by_client'
}

export interface HttpRequest {
  method: string
  path: string
  headers: Record<string, string>
  body: Buffer
  chunked?: boolean
  http_version?: string
  abort_after_bytes?: number
}

export async function sendHttp(port: number, request: HttpRequest, agent?: http.Agent): Promise<Answer> {
  if (request.http_version === '2') return sendHttp2(port, request)
  if (request.abort_after_bytes !== undefined) return hangUp(port, request, request.abort_after_bytes)
  const { method, path, body, chunked } = request
  const headers: Record<string, string> = {
    ...(!chunked && body.length > 0 && { 'content-length': String(body.length) }),
    ...request.headers,
  }
  const sent = http.request({ host: '127.0.0.1', port, method, path, headers, ...(agent && { agent }) })
  sent.on('error', () => {}) // an answer may come before all is sent
  const answered = once(sent, 'response') as Promise<[http.IncomingMessage]>
  if (headers.expect) await once(sent, 'continue')
  if (chunked) for (let at = 0; at < body.length; at += 10_000) sent.write(body.subarray(at, at + 10_000))
  sent.end(chunked ? undefined : body)
  const [response] = await answered
  const received = Buffer.concat(await response.toArray())
  const coding = response.headers['content-encoding']
  return { status: response.statusCode!, headers: response.headers, body: coding === 'gzip' ? gunzipSync(received) : received }
}

function sendHttp2(port: number, { method, path, headers, body }: HttpRequest): Promise<Answer> {
  return new Promise((resolve) => {
    const session = http2.connect(`http://127.0.0.1:${port}`)
    const done = (answer: Answer) => {
      resolve(answer)
      session.destroy()
    }
    const refused = () => done({ headers: {}, body: Buffer.alloc(0), connection: 'refused_protocol' })
    const stream = session
      .on('error', refused)
      .on('close', refused)
      .request({ ':method': method, ':path': path, ...headers })
    stream.on('error', refused).on('response', async (received) => {
      done({ status: received[':status']!, headers: received as Answer['headers'], body: Buffer.concat(await stream.toArray()) })
    })
    stream.end(body)
  })
}

async function hangUp(port: number, { method, path, headers, body }: HttpRequest, bytes: number): Promise<Answer> {
  const socket = connect(port, '127.0.0.1')
  const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body.subarray(0, bytes).toString()}`)
  await once(socket.resume(), 'close')
  return { headers: {}, body: Buffer.alloc(0), connection: 'closed_by_client' }
}

export interface GrpcRequest {
  path: string
  headers: Record<string, string>
  /** The message as it goes out. */
  body: Buffer
  compressed: boolean
}

/** A unary call by hand: no gRPC library sends what some cases want. */
export async function sendGrpc(session: http2.ClientHttp2Session, { path, headers, body, compressed }: GrpcRequest): Promise<Answer> {
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers })
  let received: Record<string, any> = {}
  stream.on('response', (first) => (received = { ...first }))
  stream.on('trailers', (last) => (received = { ...received, ...last }))
  stream.on('error', () => {})
  const frame = Buffer.alloc(5)
  frame[0] = compressed ? 1 : 0
  frame.writeUInt32BE(body.length, 1)
  stream.write(frame)
  stream.end(body)
  const data = Buffer.concat(await stream.toArray())
  return { grpc_code: Number(received['grpc-status']), headers: received, body: data.subarray(5) }
}
