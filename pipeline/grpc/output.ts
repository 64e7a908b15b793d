// What goes to one client: whole frames, all of one turn of the event loop in one write, and answers within the client's windows.

import type { Duplex } from 'node:stream'

import { CODE, DEFAULT_FRAME, DEFAULT_WINDOW, FLAG, frame, MAX_WINDOW, rstStream, TYPE, writeHead } from './frames.ts'
import { STATUS, type GrpcStatus } from './grpc.ts'
import { encodeField, STATUS_200 } from './hpack.ts'

/** A stream as the client's flow control sees it. */
export interface Recipient {
  readonly id: number
  /** What the client added to the stream's window, less what was sent. */
  credit: number
}

export interface Output {
  write(frames: Buffer): void
  /** Sends a response. False: the client's windows are too small for now, and `answered` will be called. */
  answer(to: Recipient, message: Uint8Array): boolean
  /** Ends a stream by a status alone. A client that is `sending` is told to stop, which is no error. */
  refuse(id: number, status: GrpcStatus, sending: boolean): void
  /** The same for a client that does not speak gRPC. */
  refuseType(id: number, sending: boolean): void
  /** Stops waiting for the windows of a stream. */
  forget(to: Recipient): void
  /** The connection's window grows; false when it grows too large. */
  grow(bytes: number): boolean
  /** Takes a changed setting, or a stream's larger window, into account. */
  resume(settings?: { initialWindow?: number; maxFrame?: number }): void
  /** Writes what there is and closes our side. */
  end(frames?: Buffer): void
  /** Since when the client has not read what was written to it. */
  stalledSince(): number | undefined
}

const HEAD_FIELDS = Buffer.concat([STATUS_200, encodeField('content-type', 'application/grpc')])
const HEAD = frame(TYPE.headers, FLAG.endHeaders, 0, HEAD_FIELDS)
const TAIL = frame(TYPE.headers, FLAG.endHeaders | FLAG.endStream, 0, encodeField('grpc-status', '0'))
const UNSUPPORTED_MEDIA = encodeField(':status', '415')
const ENCODINGS = encodeField('grpc-accept-encoding', 'identity,gzip')
/** Where the stream's id stands in a frame. */
const ID = 5
const PREFIX = 5
/** A whole response that says nothing but that all is well, as most do, and where the stream's id stands in it. */
const PLAIN = Buffer.concat([HEAD, frame(TYPE.data, 0, 0, Buffer.alloc(PREFIX)), TAIL])
const PLAIN_IDS = [ID, HEAD.length + ID, HEAD.length + 9 + PREFIX + ID]
/** Some clients take 8 KB of headers and no more: the message, three letters a byte at worst, and the details must both fit. */
const MESSAGE_BYTES = 1_000
const DETAILS_BYTES = 3_500

export function createOutput(socket: Duplex, answered: (to: Recipient) => void): Output {
  let frames: Buffer[] = []
  /** Streams that get a plain response. */
  let plain: number[] = []
  let window = DEFAULT_WINDOW
  let initial = DEFAULT_WINDOW
  let maxFrame = DEFAULT_FRAME
  let stalled: number | undefined
  /** What is left to send, framed for gRPC, of answers that the windows hold back. */
  const waiting = new Map<Recipient, Buffer>()

  socket.on('drain', () => {
    stalled = undefined
    socket.resume()
  })

  function write(bytes: Buffer): void {
    // After all promises that are settled by now: the calls of one flush are answered together.
    if (frames.push(bytes) === 1 && plain.length === 0) process.nextTick(flush)
  }

  function writePlain(id: number): void {
    if (plain.push(id) === 1 && frames.length === 0) process.nextTick(flush)
  }

  function flush(): void {
    if (plain.length > 0) frames.push(plainResponses(plain))
    plain = []
    if (frames.length > 0 && socket.writable && !socket.write(frames.length === 1 ? frames[0] : Buffer.concat(frames))) {
      stalled ??= performance.now()
      socket.pause() // who does not read is not read: pings would pile up their answers
    }
    frames = []
  }

  function answer(to: Recipient, message: Uint8Array): boolean {
    const size = PREFIX + message.length
    const whole = size <= Math.min(window, initial + to.credit, maxFrame) && waiting.size === 0
    if (whole && size === PREFIX) {
      writePlain(to.id)
      window -= size
      to.credit -= size
      return true
    }
    const bytes = Buffer.allocUnsafe(whole ? HEAD.length + 9 + size + TAIL.length : HEAD.length)
    bytes.set(HEAD)
    bytes.writeUInt32BE(to.id, ID)
    write(bytes)
    if (!whole) {
      waiting.set(to, prefixed(Buffer.allocUnsafe(size), 0, message))
      return pump(to)
    }
    const data = HEAD.length
    writeHead(bytes, data, size, TYPE.data, 0, to.id)
    prefixed(bytes, data + 9, message)
    const tail = data + 9 + size
    bytes.set(TAIL, tail)
    bytes.writeUInt32BE(to.id, tail + ID)
    window -= size
    to.credit -= size
    return true
  }

  /** Sends as much of a waiting answer as its windows allow. */
  function pump(to: Recipient): boolean {
    let rest = waiting.get(to)!
    while (rest.length > 0) {
      const size = Math.min(rest.length, window, initial + to.credit, maxFrame)
      if (size <= 0) {
        waiting.set(to, rest)
        return false
      }
      write(frame(TYPE.data, 0, to.id, rest.subarray(0, size)))
      window -= size
      to.credit -= size
      rest = rest.subarray(size)
    }
    waiting.delete(to)
    const tail = Buffer.from(TAIL)
    tail.writeUInt32BE(to.id, ID)
    write(tail)
    return true
  }

  function endStream(id: number, fields: Buffer, sending: boolean): void {
    write(frame(TYPE.headers, FLAG.endHeaders | FLAG.endStream, id, fields))
    if (sending) write(rstStream(id, CODE.noError))
  }

  return {
    write,
    answer,
    refuse(id, { code, message, details }, sending) {
      const fields = [HEAD_FIELDS, encodeField('grpc-status', String(code))]
      if (message !== '') fields.push(encodeField('grpc-message', percentEncode(message)))
      if (details && details.length <= DETAILS_BYTES) fields.push(encodeField('grpc-status-details-bin', base64(details)))
      if (code === STATUS.unimplemented) fields.push(ENCODINGS)
      endStream(id, Buffer.concat(fields), sending)
    },
    refuseType: (id, sending) => endStream(id, UNSUPPORTED_MEDIA, sending),
    forget: (to) => void waiting.delete(to),
    grow(bytes) {
      window += bytes
      this.resume()
      return window <= MAX_WINDOW
    },
    resume({ initialWindow = initial, maxFrame: largest = maxFrame } = {}) {
      initial = initialWindow
      maxFrame = largest
      for (const to of waiting.keys()) if (pump(to)) answered(to)
    },
    end(last) {
      flush()
      if (last) frames.push(last)
      flush()
      socket.end()
    },
    stalledSince: () => stalled,
  }
}

function prefixed(bytes: Buffer, at: number, message: Uint8Array): Buffer {
  bytes[at] = 0
  bytes.writeUInt32BE(message.length, at + 1)
  bytes.set(message, at + PREFIX)
  return bytes
}

function plainResponses(ids: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(ids.length * PLAIN.length)
  bytes.fill(PLAIN)
  let at = 0
  for (const id of ids) {
    for (const place of PLAIN_IDS) bytes.writeUInt32BE(id, at + place)
    at += PLAIN.length
  }
  return bytes
}

/** As gRPC has it: UTF-8, of which printable ASCII without % stands for itself. */
function percentEncode(message: string): string {
  return [...Buffer.from(message).subarray(0, MESSAGE_BYTES)]
    .map((byte) => (byte >= 0x20 && byte <= 0x7e && byte !== 0x25 ? String.fromCharCode(byte) : `%${hex(byte)}`))
    .join('')
}

const hex = (byte: number) => byte.toString(16).toUpperCase().padStart(2, '0')
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64').replace(/=+$/, '')
