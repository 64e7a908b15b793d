// The first bytes of a connection: what HTTP/2 begins with (RFC 9113, section 3.4), or a client that came to the wrong port.

import { DEFAULT_WINDOW, illegal, MAX_WINDOW, OUR_MAX_FRAME, SETTING, settingsFrame, windowUpdate } from './frames.ts'
import type { GrpcLimits } from './grpc.ts'

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const HTTP1 = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) /
const LONGEST = 'OPTIONS '.length

/** A client of HTTP/1, and an answer that it can read. */
export class Http1 extends Error {
  override name = 'Http1'
  readonly answer = Buffer.from(
    'HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nThis port speaks gRPC, over HTTP/2 only.\n',
  )
}

/** Returns a function for the first pieces, which gives what follows the preface, or undefined while that is not complete. */
export function createGreeting(): (piece: Buffer) => Buffer | undefined {
  let greeted = 0
  return (piece) => {
    const size = Math.min(piece.length, PREFACE.length - greeted)
    if (PREFACE.compare(piece, 0, size, greeted, greeted + size) !== 0) {
      throw greeted === 0 && HTTP1.test(piece.toString('latin1', 0, LONGEST)) ? new Http1() : illegal('this is not HTTP/2')
    }
    greeted += size
    return greeted === PREFACE.length ? piece.subarray(size) : undefined
  }
}

/** What a server says first: its settings, and the connection's window. */
export function ourPreface({ maxConcurrentStreams, maxMessageBytes, maxHeaderBytes }: GrpcLimits, window: number): Buffer {
  const settings = settingsFrame([
    [SETTING.maxConcurrentStreams, maxConcurrentStreams],
    // A whole message fits, so that no stream needs more window, and none can exceed it without exceeding its message.
    [SETTING.initialWindowSize, Math.min(Math.max(maxMessageBytes + 5, DEFAULT_WINDOW), MAX_WINDOW)],
    [SETTING.maxFrameSize, OUR_MAX_FRAME],
    [SETTING.maxHeaderListSize, maxHeaderBytes],
  ])
  return Buffer.concat([settings, windowUpdate(0, window - DEFAULT_WINDOW)])
}
