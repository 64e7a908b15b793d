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
  readonly headers: HttpHeaders
  readonly body: Uint8Array
}

export type HttpHeaders = Readonly<Record<string, string | number>>

/** What answers one request: with `send`, or with `begin`, any number of `write` and `end`. Once it is over, nothing more is written. */
export interface HttpResponse {
  /** Whether any of it was written. */
  isBegun(): boolean
  /** Whether all of it was written, or the client has gone. */
  isOver(): boolean
  send(answer: HttpAnswer): void
  begin(status: number, headers: HttpHeaders): void
  /** `drained`, where given, is called once the client takes more, if it takes none now: false. */
  write(piece: Uint8Array, drained?: () => void): boolean
  end(): void
  /** Told once, when the answer has gone out whole, or will not. */
  onClose(closed: (isWhole: boolean) => void): void
}

/** Must not throw. The request's body may be read until the answer is over. */
export type HttpService = (request: HttpRequest, response: HttpResponse) => void

/** Never rejects. The request's body may be read until the promise has settled. */
export type HttpHandler = (request: HttpRequest) => Promise<HttpAnswer>

export const answering =
  (handle: HttpHandler): HttpService =>
  (request, response) =>
    void handle(request).then(response.send)

/**
 * For a server of node:http.
 *
 * @param isLast whether connections are to end with their answer
 * @param pool where bodies are kept until their answer is over, if anywhere
 */
export function onNode(
  serve: HttpService,
  isLast: () => boolean,
  pool?: Pool,
): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    let held: Buffer | undefined
    const memory = (bytes: number) => (pool?.isHalfFree(bytes) ? (held = pool.take(bytes)) : undefined)
    function free(): void {
      if (held) pool!.give(held)
      held = undefined
    }
    const path = request.url!.split('?', 1)[0]!
    serve({ ...bodyOf(request, memory), method: request.method!, path }, responseOf(response, isLast, free))
  }
}

function responseOf(response: ServerResponse, isLast: () => boolean, over: () => void): HttpResponse {
  const isOver = () => response.writableEnded || response.destroyed
  function begin(status: number, headers: HttpHeaders): void {
    if (isLast()) response.setHeader('connection', 'close') // else a client that keeps it open would hold up the shutdown
    response.writeHead(status, headers)
  }
  return {
    isBegun: () => response.headersSent,
    isOver,
    send({ status, headers, body }) {
      over()
      if (isOver()) return
      begin(status, { ...headers, 'content-length': body.length })
      response.end(body)
    },
    begin,
    write(piece, drained) {
      if (isOver() || response.write(piece)) return true
      if (drained) response.once('drain', drained)
      return false
    },
    end() {
      over()
      if (!isOver()) response.end()
    },
    onClose: (closed) => void response.once('close', () => closed(response.writableFinished)),
  }
}
