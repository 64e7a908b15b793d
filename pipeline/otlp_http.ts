// OTLP over HTTP/1.1: protobuf and JSON on one port, told apart by the content type.

import { CODE, rpcStatus, type Encoding, type Failure } from '../data/otlp_answer.ts'
import { Unauthenticated, type Authenticate } from './auth.ts'
import type { AllowOrigin } from './cors.ts'
import { BodyError, readBody } from './http_body.ts'
import { answering, onNode, type HttpAnswer, type HttpHandler } from './http_exchange.ts'
import { createHttpServer, type HttpServerOptions } from './http_server.ts'
import { close, listen, type Address } from './listen.ts'
import { failureOf, type OtlpSignal, type Take } from './otlp_server.ts'
import { createPlainServer } from './plain_server.ts'
import { createPool } from './pool.ts'

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
  const { address, option, allowOrigin, maxBodyBytes, paths, tls, limited = () => {} } = options
  const pool = createPool(withRoom(options.maxBytesInFlight, maxBodyBytes), () => limited('bytes_in_flight'))
  const trimmer = setInterval(pool.trim, TRIM_MS).unref()
  let isStopping = false
  const serve = answering(exporting(options, take))
  const onRequest = onNode(serve, () => isStopping, pool)
  const others = createHttpServer(options, (request, response) => void (allowOrigin?.(request, response) || onRequest(request, response)))
  // Browsers send little, and what is encrypted is copied anyway.
  const plain = tls || allowOrigin ? undefined : createPlainServer({ others, paths, serve, pool, limited })

  const { port } = await listen(plain?.server ?? others, address, option)
  async function stop(): Promise<void> {
    isStopping = true
    clearInterval(trimmer)
    await (plain ? plain.close() : close(others))
  }
  return { port, stop }
}

/** The largest body must find room, even beside another and in a buffer that is a quarter larger. */
const withRoom = (maxBytesInFlight: number, maxBodyBytes: number): number => Math.max(maxBytesInFlight, 2.5 * maxBodyBytes)

function exporting({ authenticate, paths, maxBodyBytes }: HttpOptions, take: Take): HttpHandler {
  return async (request) => {
    const encoding = encodingOf(request.header('content-type'))
    try {
      const asked = authenticate?.(request.header)
      if (asked) await asked // where it is known at once, the body goes from the socket to its place
      const signal = paths.get(request.path)
      if (signal === undefined) return refusal(404, encoding, `404 page not found, known: ${[...paths.keys()].join(', ')}`)
      if (request.method !== 'POST') return refusal(405, encoding, '405 method not allowed, supported: [POST]', { allow: 'POST' })
      if (encoding === undefined) {
        const supported = Object.values(MEDIA_TYPE).join(', ')
        return refusal(415, encoding, `415 unsupported media type, supported: [${supported}]`)
      }
      const body = await take(signal, encoding, (lease) => readBody(request, maxBodyBytes, lease))
      return { status: 200, headers: { 'content-type': MEDIA_TYPE[encoding] }, body }
    } catch (error) {
      const failure = failureOf(error)
      const status = error instanceof BodyError ? error.status : (STATUS[failure.code] ?? 500)
      return failed(status, encoding, failure, {
        ...(failure.retryAfterMs !== undefined && { 'retry-after': Math.ceil(failure.retryAfterMs / 1_000) }),
        ...(error instanceof Unauthenticated && { 'www-authenticate': error.challenge }),
      })
    }
  }
}

/** A request that is not an export at all. */
function refusal(status: number, encoding: Encoding | undefined, message: string, headers: HttpAnswer['headers'] = {}): HttpAnswer {
  return failed(status, encoding, { code: CODE.unimplemented, message }, headers)
}

function failed(status: number, encoding: Encoding | undefined, failure: Failure, headers: HttpAnswer['headers']): HttpAnswer {
  const type = encoding ? MEDIA_TYPE[encoding] : 'text/plain; charset=utf-8'
  const body = encoding ? rpcStatus(failure, encoding) : Buffer.from(`${failure.message}\n`)
  return { status, headers: { 'content-type': type, ...headers }, body }
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
