// HTTP/2 frames (RFC 9113, sections 4 and 6): their numbers, a reader that takes the stream cut into any pieces, and writers.

export const TYPE = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const
export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 32 } as const
export const SETTING = { enablePush: 2, maxConcurrentStreams: 3, initialWindowSize: 4, maxFrameSize: 5, maxHeaderListSize: 6 } as const
export const CODE = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  cancel: 8,
  compressionError: 9,
  enhanceYourCalm: 11,
} as const
export type Code = (typeof CODE)[keyof typeof CODE]

export const DEFAULT_WINDOW = 65_535
export const MAX_WINDOW = 2 ** 31 - 1
export const DEFAULT_FRAME = 16_384
/** The largest DATA frame we take: fewer frames for large messages. */
export const OUR_MAX_FRAME = 1 << 20

/** The connection cannot go on: GOAWAY with this code. */
export class ConnectionError extends Error {
  override name = 'ConnectionError'
  readonly code: Code
  constructor(code: Code, message: string) {
    super(message)
    this.code = code
  }
}

export const illegal = (message: string) => new ConnectionError(CODE.protocolError, message)

export function sized(payload: Buffer, size: number): void {
  if (payload.length !== size) throw new ConnectionError(CODE.frameSizeError, `a frame of ${payload.length} bytes instead of ${size}`)
}

export interface FrameEvents {
  /** A DATA frame begins; its whole length counts against the windows. */
  dataStart(id: number, length: number, endStream: boolean): void
  /** A piece of its data, without padding. */
  data(bytes: Buffer, start: number, end: number): void
  /** `padding`: how many of its bytes were none. */
  dataEnd(id: number, length: number, padding: number, endStream: boolean): void
  /** Any other frame, complete: what stands from `start` to `end`, during the call. Nothing for a type that nobody knows. */
  frame(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void
}

/** Returns a function to be called with each piece of the stream. It throws ConnectionError. */
export function createFrameReader(events: FrameEvents, maxHeaderBlock: number): (piece: Buffer) => void {
  const head = Buffer.alloc(9)
  let have = 0
  let inside = false
  let type = 0
  let flags = 0
  let id = 0
  let length = 0
  let left = 0
  /** Bytes at the frame's end that are not data; -1 until the byte that says so. */
  let padding = 0
  /** Collects a frame that is not in one piece. */
  let held: Buffer | undefined

  function read(piece: Buffer): void {
    let at = 0
    while (at < piece.length) {
      if (!inside) {
        if (have === 0 && piece.length - at >= 9) {
          open(piece, at)
          at += 9
        } else {
          const taken = piece.copy(head, have, at, at + 9 - have)
          have += taken
          at += taken
          if (have < 9) return
          have = 0
          open(head, 0)
        }
      }
      const end = Math.min(piece.length, at + left)
      const last = end - at === left
      if (type === TYPE.data) data(piece, at, end)
      else if (held || !last) hold(piece, at, end)
      left -= end - at
      if (last) {
        inside = false
        if (type === TYPE.data) events.dataEnd(id, length, flags & FLAG.padded ? padding + 1 : 0, (flags & FLAG.endStream) !== 0)
        else if (held) events.frame(type, flags, id, held, 0, length)
        else events.frame(type, flags, id, piece, at, type > TYPE.continuation ? at : end)
        held = undefined
      }
      at = end
    }
  }

  function open(bytes: Buffer, at: number): void {
    inside = true
    left = length = (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!
    type = bytes[at + 3]!
    flags = bytes[at + 4]!
    id = bytes.readUInt32BE(at + 5) & MAX_WINDOW
    if (length > OUR_MAX_FRAME) throw new ConnectionError(CODE.frameSizeError, `a frame of ${length} bytes`)
    if (type === TYPE.data) {
      padding = flags & FLAG.padded ? -1 : 0
      if (padding < 0 && length === 0) throw new ConnectionError(CODE.frameSizeError, 'padding without its length')
      events.dataStart(id, length, (flags & FLAG.endStream) !== 0)
    } else if (type <= TYPE.continuation && length > maxHeaderBlock) {
      throw new ConnectionError(CODE.enhanceYourCalm, `a frame of type ${type} with ${length} bytes`)
    }
  }

  function data(piece: Buffer, from: number, to: number): void {
    let start = from
    if (padding < 0 && start < to) {
      padding = piece[start++]!
      if (padding >= length) throw illegal('more padding than frame')
    }
    const end = Math.min(to, from + left - padding)
    if (padding >= 0 && start < end) events.data(piece, start, end)
  }

  function hold(piece: Buffer, start: number, end: number): void {
    if (type > TYPE.continuation) return // a type that nobody knows is passed over
    held ??= Buffer.allocUnsafe(length)
    piece.copy(held, length - left, start, end)
  }

  return read
}

export function frame(type: number, flags: number, id: number, payload: Uint8Array = EMPTY): Buffer {
  const bytes = Buffer.allocUnsafe(9 + payload.length)
  writeHead(bytes, 0, payload.length, type, flags, id)
  bytes.set(payload, 9)
  return bytes
}

export function writeHead(bytes: Buffer, at: number, length: number, type: number, flags: number, id: number): void {
  bytes[at] = length >>> 16
  bytes[at + 1] = length >>> 8
  bytes[at + 2] = length
  bytes[at + 3] = type
  bytes[at + 4] = flags
  bytes.writeUInt32BE(id, at + 5)
}

export function settingsFrame(settings: readonly (readonly [key: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(6 * settings.length)
  settings.forEach(([key, value], i) => payload.writeUInt32BE(value, payload.writeUInt16BE(key, 6 * i)))
  return frame(TYPE.settings, 0, 0, payload)
}

/** The settings of a client that concern us (RFC 9113, section 6.5.2), checked. */
export function readSettings(payload: Buffer): { initialWindow?: number; maxFrame?: number } {
  if (payload.length % 6 !== 0) throw new ConnectionError(CODE.frameSizeError, 'SETTINGS cut short')
  const settings: { initialWindow?: number; maxFrame?: number } = {}
  for (let at = 0; at < payload.length; at += 6) {
    const value = payload.readUInt32BE(at + 2)
    switch (payload.readUInt16BE(at)) {
      case SETTING.enablePush:
        if (value > 1) throw illegal(`ENABLE_PUSH ${value}`)
        break
      case SETTING.initialWindowSize:
        if (value > MAX_WINDOW) throw new ConnectionError(CODE.flowControlError, `INITIAL_WINDOW_SIZE ${value}`)
        settings.initialWindow = value
        break
      case SETTING.maxFrameSize:
        if (value < DEFAULT_FRAME || value >= 1 << 24) throw illegal(`MAX_FRAME_SIZE ${value}`)
        settings.maxFrame = value
    }
  }
  return settings
}

export const windowUpdate = (id: number, bytes: number): Buffer => frame(TYPE.windowUpdate, 0, id, uint32(bytes))
export const rstStream = (id: number, code: Code): Buffer => frame(TYPE.rstStream, 0, id, uint32(code))
export const goAway = (lastId: number, code: Code, why = ''): Buffer =>
  frame(TYPE.goAway, 0, 0, Buffer.concat([uint32(lastId), uint32(code), Buffer.from(why)]))

const EMPTY = Buffer.alloc(0)

function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value)
  return bytes
}
