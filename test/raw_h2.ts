// A client that says any frames it likes, to see what a server makes of them.

import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'

import { createFrameReader, FLAG, frame, TYPE } from '../pipeline/grpc/frames.ts'
import { createHpackDecoder, encodeField, type Field } from '../pipeline/grpc/hpack.ts'
import { PREFACE } from '../pipeline/grpc/preface.ts'
import { ECHO } from './grpc.ts'

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly id: number
  readonly payload: Buffer
}

export interface RawClient {
  readonly socket: Duplex
  readonly frames: readonly Frame[]
  send(...bytes: Buffer[]): void
  /** The first frame, ever or still to come, for which `wanted` holds. */
  frame(wanted: (frame: Frame) => boolean): Promise<Frame>
  /** How a stream ended: its headers and trailers together, and its data. `reset` is the code of RST_STREAM. */
  answer(id: number): Promise<{ fields: Record<string, string>; data: Buffer; reset?: number }>
  /** The code and text of GOAWAY. */
  goAway(): Promise<{ lastId: number; code: number; text: string }>
  ended: Promise<unknown>
}

export const HELLO = Buffer.concat([PREFACE, frame(TYPE.settings, 0, 0)])

/** Connects and says hello, or `hello`. */
export async function rawClient(port: number, hello = HELLO): Promise<RawClient> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  return talk(socket, hello)
}

function talk(socket: Duplex, hello = HELLO): RawClient {
  const frames: Frame[] = []
  const waiting = new Set<() => void>()
  const read = createFrameReader(
    collecting((got) => void frames.push(got)),
    1 << 20,
  )
  const hpack = createHpackDecoder(1 << 20)
  const decoded = new Map<Frame, readonly Field[]>()
  socket.on('data', (piece: Buffer) => {
    const before = frames.length
    read(piece)
    for (const got of frames.slice(before)) if (got.type === TYPE.headers) decoded.set(got, [...hpack.decode(got.payload)!])
    for (const check of waiting) check()
  })
  socket.on('error', () => {})
  const ended = new Promise((resolve) => socket.once('close', resolve))
  socket.write(hello)

  function frameLike(wanted: (frame: Frame) => boolean): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = frames.find(wanted)
        if (!found) return
        waiting.delete(check)
        resolve(found)
      }
      waiting.add(check)
      check()
      void ended.then(() => reject(new Error(`closed after ${JSON.stringify(frames.map(({ type, id }) => [type, id]))}`)))
    })
  }

  return {
    socket,
    frames,
    send: (...bytes) => void socket.write(Buffer.concat(bytes)),
    frame: frameLike,
    async answer(id) {
      const last = await frameLike((f) => f.id === id && (f.type === TYPE.rstStream || isLast(f)))
      const own = frames.filter((f) => f.id === id)
      const fields = own.flatMap((f) => decoded.get(f) ?? []).map(({ name, value }) => [name, value])
      const data = Buffer.concat(own.filter((f) => f.type === TYPE.data).map(({ payload }) => payload))
      return { fields: Object.fromEntries(fields), data, ...(last.type === TYPE.rstStream && { reset: last.payload.readUInt32BE() }) }
    },
    async goAway() {
      const { payload } = await frameLike((f) => f.type === TYPE.goAway)
      return { lastId: payload.readUInt32BE(), code: payload.readUInt32BE(4), text: payload.toString('utf8', 8) }
    },
    ended,
  }
}

const isLast = ({ type, flags }: Frame) => type <= TYPE.headers && (flags & FLAG.endStream) !== 0

/** Makes whole frames of a reader's events. */
function collecting(got: (frame: Frame) => void) {
  let pieces: Buffer[] = []
  return {
    dataStart: () => void (pieces = []),
    data: (bytes: Buffer, start: number, end: number) => void pieces.push(Buffer.from(bytes.subarray(start, end))),
    dataEnd: (id: number, _length: number, _padding: number, endStream: boolean) =>
      got({ type: TYPE.data, flags: endStream ? FLAG.endStream : 0, id, payload: Buffer.concat(pieces) }),
    frame: (type: number, flags: number, id: number, bytes: Buffer, start: number, end: number) =>
      got({ type, flags, id, payload: Buffer.from(bytes.subarray(start, end)) }),
  }
}

/** HEADERS of a request. Fields given as undefined are left out. */
export function request(id: number, fields: Record<string, string | undefined> = {}, flags: number = FLAG.endHeaders): Buffer {
  return frame(TYPE.headers, flags, id, requestBlock(fields))
}

export function requestBlock(fields: Record<string, string | undefined> = {}): Buffer {
  const all = {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': ECHO,
    ':authority': 'localhost',
    'content-type': 'application/grpc',
    ...fields,
  }
  return Buffer.concat(Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [encodeField(name, value)])))
}

/** A message with its prefix. */
export function prefixed(message: Buffer | string, compressed = 0): Buffer {
  const body = Buffer.from(message)
  const prefix = Buffer.from([compressed, 0, 0, 0, 0])
  prefix.writeUInt32BE(body.length, 1)
  return Buffer.concat([prefix, body])
}

export const data = (id: number, bytes: Buffer, flags: number = FLAG.endStream): Buffer => frame(TYPE.data, flags, id, bytes)
