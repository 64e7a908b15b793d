// The answer to a plain request: whole, in one write, or in pieces, of which all that come in one turn of the event loop go out as one chunk.

import { STATUS_CODES, validateHeaderValue } from 'node:http'
import type { Socket } from 'node:net'

import type { HttpHeaders, HttpResponse } from './http_exchange.ts'

export interface PlainResponse extends HttpResponse {
  /** To be called when it has gone out, or the connection has ended. */
  closed(isOut: boolean): void
}

/** What is told of the connection that an answer goes out by. */
export interface Line {
  readonly socket: Socket
  /** Whether anything may be written. */
  isOpen(): boolean
  /** Whether it goes on after this answer. */
  goesOn(): boolean
}

/** More than this is not copied to stand behind its head, and a client that has so much to take is to take it first. */
const LARGE_BYTES = 64 << 10
const LAST_CHUNK = Buffer.from('0\r\n\r\n')
const LINE_END = Buffer.from('\r\n')

/** @param over is called once when all was written, even if the client has gone, and told whether the connection goes on */
export function createPlainResponse({ socket, isOpen, goesOn }: Line, over: (goesOn: boolean) => void): PlainResponse {
  let state: 'to come' | 'begun' | 'over' = 'to come'
  let isKept = true
  /** What waits for the end of the turn. */
  let head = ''
  let pieces: Uint8Array[] = []
  let size = 0
  let drained: (() => void) | undefined
  let tell: ((isWhole: boolean) => void) | undefined

  const isOver = () => state === 'over' || !isOpen()

  /** `length` where it is known. */
  function headOf(status: number, headers: HttpHeaders, length?: number): string {
    isKept = goesOn()
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`
    for (const name in headers) {
      const value = String(headers[name]!)
      validateHeaderValue(name, value)
      text += `${name}: ${value}\r\n`
    }
    if (length !== undefined) text += `content-length: ${length}\r\n`
    text += `Date: ${date()}\r\n${isKept ? KEEP : CLOSE}`
    return length === undefined ? `${text}Transfer-Encoding: chunked\r\n\r\n` : `${text}\r\n`
  }

  function flush(isLast = false): void {
    if (size === 0 && !isLast) return
    const parts: Uint8Array[] = [Buffer.from(size > 0 ? `${head}${size.toString(16)}\r\n` : head, 'latin1'), ...pieces]
    if (size > 0) parts.push(LINE_END)
    if (isLast) parts.push(LAST_CHUNK)
    head = ''
    pieces = []
    size = 0
    if (isOpen()) socket.write(Buffer.concat(parts))
    const resume = drained
    drained = undefined
    if (resume && socket.writableNeedDrain) socket.once('drain', resume)
    else resume?.()
  }

  return {
    isBegun: () => state !== 'to come',
    isOver,
    send({ status, headers, body }) {
      if (state === 'over') return
      const head = headOf(status, headers, body.length)
      state = 'over'
      if (isOpen()) writeBoth(socket, head, body)
      over(isKept)
    },
    begin(status, headers) {
      head = headOf(status, headers)
      state = 'begun'
    },
    write(piece, resume) {
      if (isOver() || piece.length === 0) return true
      if (size === 0) process.nextTick(flush)
      pieces.push(piece)
      size += piece.length
      if (socket.writableLength + size < LARGE_BYTES) return true
      drained = resume
      return false
    },
    end() {
      if (state === 'over') return
      state = 'over'
      flush(true)
      over(isKept)
    },
    onClose(closed) {
      tell = closed
    },
    closed(isOut) {
      tell?.(isOut && state === 'over')
      tell = undefined
    },
  }
}

const KEEP = 'Connection: keep-alive\r\nKeep-Alive: timeout=120\r\n'
const CLOSE = 'Connection: close\r\n'

function writeBoth(socket: Socket, head: string, body: Uint8Array): void {
  if (body.length === 0) socket.write(head, 'latin1')
  else if (body.length <= LARGE_BYTES) socket.write(Buffer.concat([Buffer.from(head, 'latin1'), body]))
  else {
    socket.cork()
    socket.write(head, 'latin1')
    socket.write(body)
    socket.uncork()
  }
}

let dateText = ''
let dateSecond = 0

function date(): string {
  const second = Math.floor(Date.now() / 1_000)
  if (second !== dateSecond) dateText = new Date().toUTCString()
  dateSecond = second
  return dateText
}
