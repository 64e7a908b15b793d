// A request's headers come in a HEADERS frame and any number of CONTINUATION frames, which nothing may interrupt (RFC 9113,
// section 6.10). Both their size and their number are bounded (CVE-2024-27316).

import { CODE, ConnectionError, FLAG, illegal, TYPE } from './frames.ts'

export interface HeaderBlocks {
  /** Whether a frame may come now. */
  check(type: number, id: number): void
  headers(flags: number, id: number, payload: Buffer): void
  continuation(flags: number, id: number, payload: Buffer): void
}

const MAX_FRAMES = 32

/** `complete` gets each block; it is only valid during the call. */
export function createHeaderBlocks(
  maxBytes: number,
  complete: (id: number, endStream: boolean, block: Buffer) => void,
  tooLarge: () => Error,
): HeaderBlocks {
  let open: { readonly id: number; readonly endStream: boolean; readonly parts: Buffer[]; bytes: number } | undefined

  return {
    check(type, id) {
      if (open ? type !== TYPE.continuation || id !== open.id : type === TYPE.continuation) throw illegal('a header block is interrupted')
    },
    headers(flags, id, payload) {
      if (id % 2 === 0) throw illegal(`HEADERS on stream ${id}`)
      const padded = flags & FLAG.padded ? 1 : 0
      const start = padded + (flags & FLAG.priority ? 5 : 0)
      if (payload.length < start) throw new ConnectionError(CODE.frameSizeError, 'HEADERS cut short')
      const end = payload.length - (padded && payload[0]!)
      if (end < start) throw illegal('more padding than frame')
      const fragment = payload.subarray(start, end)
      const endStream = (flags & FLAG.endStream) !== 0
      if (flags & FLAG.endHeaders) complete(id, endStream, fragment)
      else open = { id, endStream, parts: [Buffer.from(fragment)], bytes: fragment.length }
    },
    continuation(flags, id, payload) {
      const { endStream, parts } = open!
      open!.bytes += payload.length
      if (parts.push(Buffer.from(payload)) > MAX_FRAMES || open!.bytes > maxBytes) {
        throw tooLarge()
      }
      if (!(flags & FLAG.endHeaders)) return
      open = undefined
      complete(id, endStream, Buffer.concat(parts))
    },
  }
}
