// OTLP over HTTP/1.1: protobuf and JSON on one port, told apart by the content type.

import type { IncomingMessage, ServerResponse } from 'node:http'

import { CODE, exportResponse, rpcStatus, type Encoding, type Failure } from '../data/otlp_answer.ts'
import { Unauthenticated, type Authenticate } from './auth.ts'
import type { AllowOrigin } from './cors.ts'
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
  /** Any other path is not found. */
  readonly paths: ReadonlyMap<string, OtlpSignal>
}

/** Listens. `stop` resolves when the requests in flight are answered. */
export async function serveHttp({ address, option, authenticate, allowOrigin, maxBodyBytes, paths, ...limits }: HttpOptions, take: Take) {
  let stopping = false
  const server = createHttpServer(limits, (request, response) => void answer(request, response))

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (allowOrigin?.(request, response)) return
    const encoding = encodingOf(request.headers['content-type'])
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
      const rejected = await take(signal, encoding, (lease) => readBody(request, maxBodyBytes, lease))
      send(response, 200, MEDIA_TYPE[encoding], exportResponse(signal, rejected, encoding))
    } catch (error) {
      const failure = failureOf(error)
      const status = error instanceof BodyError ? error.status : (STATUS[failure.code] ?? 500)
      if (failure.retryAfterMs !== undefined) response.setHeader('retry-after', Math.ceil(failure.retryAfterMs / 1_000))
      if (error instanceof Unauthenticated) response.setHeader('www-authenticate', error.challenge)
      fail(response, status, encoding, failure)
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

  function send(response: ServerResponse, status: number, contentType: string, body: Buffer): void {
    if (stopping) response.setHeader('connection', 'close') // else a client that keeps it open would hold up the shutdown
    response.writeHead(status, { 'content-type': contentType, 'content-length': body.length }).end(body)
  }

  const { port } = await listen(server, address, option)
  async function stop(): Promise<void> {
    stopping = true
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
