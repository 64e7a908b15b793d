// Requests and answers as a handler has them, whichever server it is that reads the one and writes the other: node:http, or plain_http.ts.

import type { IncomingMessage, ServerResponse } from 'node:http'

import { bodyOf, type BodySource } from './http_body.ts'
import type { Pool } from './pool.ts'

export interface HttpRequest extends BodySource {
  readonly method: string
  /** Without its query. */
  readonly path: string
}

export interface HttpAnswer {
  readonly status: number
  /** Without those that say how the connection goes on, and content-length. */
  readonly headers: Readonly<Record<string, string | number>>
  readonly body: Uint8Array
}

/** Never rejects. The request's body may be read until the promise has settled. */
export type HttpHandler = (request: HttpRequest) => Promise<HttpAnswer>

/**
 * For a server of node:http.
 *
 * @param isLast whether connections are to end with their answer
 */
export function onNode(
  handle: HttpHandler,
  pool: Pool,
  isLast: () => boolean,
): (request: IncomingMessage, response: ServerResponse) => void {
  return async (request, response) => {
    let held: Buffer | undefined
    const memory = (bytes: number) => (pool.isHalfFree(bytes) ? (held = pool.take(bytes)) : undefined)
    const path = request.url!.split('?', 1)[0]!
    const { status, headers, body } = await handle({ ...bodyOf(request, memory), method: request.method!, path })
    if (held) pool.give(held)
    if (isLast()) response.setHeader('connection', 'close') // else a client that keeps it open would hold up the shutdown
    response.writeHead(status, { ...headers, 'content-length': body.length }).end(body)
  }
}
