// OTLP over HTTP/1.1: protobuf and JSON on one port, told apart by the content type.

import type { IncomingMessage, ServerResponse } from 'node:http'

import { CODE, rpcStatus, type Encoding, type Failure } from '../data/otlp_answer.ts'
import type { Lease } from './admission.ts'
import { Unauthenticated, type Authenticate } from './auth.ts'
import type { AllowOrigin } from './cors.ts'
import { createPool } from './pool.ts'
import { BodyError, readBody } from './http_body.ts'
import { createHttpServer, type HttpServerOptions } from './http_server.ts'
import { close, listen, type Address } from './listen.ts'
import { failureOf, type OtlpSignal, type Take } from './otlp_server.ts'

export interface HttpOptions extends HttpServerOptions {
  readonly address: Address
  /** The option that sets the address, for the error when it is taken. */
  readonly option: string
  readonly authenticate?: Authenticate | undefined
  readonly allowOrigin?: AllowOrigin | undefined
  readonly maxBodyBytes: number
  /** What all bodies together may hold. */
  readonly maxBytesInFlight: number
  /** Any other path is not found. */
  readonly paths: ReadonlyMap<string, OtlpSignal>
}

const TRIM_MS = 10_000

/** Listens. `stop` resolves when the requests in flight are answered. */
export async function serveHttp(options: HttpOptions, take: Take) {
  const { address, option, authenticate, allowOrigin, maxBodyBytes, maxBytesInFlight, paths, ...limits } = options
  const pool = createPool(maxBytesInFlight, () => {})
  const trimmer = setInterval(pool.trim, TRIM_MS).unref()
  let stopping = false
  const server = createHttpServer(limits, (request, response) => void answer(request, response))

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (allowOrigin?.(request, response)) return
    const encoding = encodingOf(request.headers['content-type'])
    let held: Buffer | undefined
    try {
      await authenticate?.((name) => request.headers[name]?.toString())
      const signal = paths.get(request.url!.split('?', 1)[0]!)
      if (signal === undefined) return refuse(response, 404, encoding, `404 page not found, known: ${[...paths.keys()].join(', ')}`)
      if (request.method !== 'POST') {
        response.setHeader('allow', 'POST')
        return refuse(response, 405, encoding, '405 method not allowed, supported: [POST]')
      }
      if (encoding === undefined) {
        const supported = Object.values(MEDIA_TYPE).join(', ')
        return refuse(response, 415, encoding, `415 unsupported media type, supported: [${supported}]`)
      }
      // Whoever announces much and sends little must not take memory from the others: of half of it, each gets what it announced.
      const memory = (bytes: number) => (pool.used() + bytes > maxBytesInFlight / 2 ? undefined : (held = pool.take(bytes)))
      const read = (lease: Lease) => readBody(request, maxBodyBytes, lease, memory)
      const body = await take(signal, encoding, read)
      send(response, 200, MEDIA_TYPE[encoding], body)
    } catch (error) {
      const failure = failureOf(error)
      const status = error instanceof BodyError ? error.status : (STATUS[failure.code] ?? 500)
      if (failure.retryAfterMs !== undefined) response.setHeader('retry-after', Math.ceil(failure.retryAfterMs / 1_000))
      if (error instanceof Unauthenticated) response.setHeader('www-authenticate', error.challenge)
      fail(response, status, encoding, failure)
    } finally {
      if (held) pool.give(held)
    }
  }

  /** A request that is not an export at all. */
  function refuse(response: ServerResponse, status: number, encoding: Encoding | undefined, message: string): void {
    fail(response, status, encoding, { code: CODE.unimplemented, message })
  }

  function fail(response: ServerResponse, status: number, encoding: Encoding | undefined, failure: Failure): void {
    if (encoding) send(response, status, MEDIA_TYPE[encoding], rpcStatus(failure, encoding))
    else send(response, status, 'text/plain; charset=utf-8', Buffer.from(`${failure.message}\n`))
  }

  function send(response: ServerResponse, status: number, contentType: string, body: Uint8Array): void {
    if (stopping) response.setHeader('connection', 'close') // else a client that keeps it open would hold up the shutdown
    response.writeHead(status, { 'content-type': contentType, 'content-length': body.length }).end(body)
  }

  const { port } = await listen(server, address, option)
  async function stop(): Promise<void> {
    stopping = true
    clearInterval(trimmer)
    await close(server)
  }
  return { port, stop }
}

const MEDIA_TYPE = { json: 'application/json', protobuf: 'application/x-protobuf' } as const

/** Of the codes that clients retry, only 503 is ever answered: 429 would need a reason to treat one client alone. */
const STATUS: Readonly<Record<number, number>> = {
  [CODE.invalid_argument]: 400,
  [CODE.unauthenticated]: 401,
  [CODE.internal]: 500,
  [CODE.unavailable]: 503,
}

function encodingOf(contentType = ''): Encoding | undefined {
  const mediaType = contentType.split(';', 1)[0]!.trim().toLowerCase()
  return mediaType === MEDIA_TYPE.json ? 'json' : mediaType === MEDIA_TYPE.protobuf ? 'protobuf' : undefined
}
