// A request's headers come in a HEADERS frame and any number of CONTINUATION frames, which nothing may interrupt (RFC 9113,
// section 6.10). Both their size and their number are bounded (CVE-2024-27316).

import { CODE, ConnectionError, FLAG, illegal, TYPE } from './frames.ts'

export interface HeaderBlocks {
  /** Whether a frame may come now. */
  check(type: number, id: number): void
  headers(flags: number, id: number, bytes: Buffer, start: number, end: number): void
  continuation(flags: number, id: number, bytes: Buffer, start: number, end: number): void
}

const MAX_FRAMES = 32

/** `complete` gets each block, which is only valid during the call, by where it stands. */
export function createHeaderBlocks(
  maxBytes: number,
  complete: (id: number, endStream: boolean, bytes: Buffer, start: number, end: number) => void,
  tooLarge: () => Error,
): HeaderBlocks {
  let open: { readonly id: number; readonly endStream: boolean; readonly parts: Buffer[]; bytes: number } | undefined

  return {
    check(type, id) {
      if (open ? type !== TYPE.continuation || id !== open.id : type === TYPE.continuation) throw illegal('a header block is interrupted')
    },
    headers(flags, id, bytes, first, last) {
      if (id % 2 === 0) throw illegal(`HEADERS on stream ${id}`)
      const padded = flags & FLAG.padded ? 1 : 0
      const start = first + padded + (flags & FLAG.priority ? 5 : 0)
      if (last < start) throw new ConnectionError(CODE.frameSizeError, 'HEADERS cut short')
      const end = last - (padded && bytes[first]!)
      if (end < start) throw illegal('more padding than frame')
      const endStream = (flags & FLAG.endStream) !== 0
      if (flags & FLAG.endHeaders) complete(id, endStream, bytes, start, end)
      else open = { id, endStream, parts: [copyOf(bytes, start, end)], bytes: end - start }
    },
    continuation(flags, id, bytes, start, end) {
      const { endStream, parts } = open!
      open!.bytes += end - start
      if (parts.push(copyOf(bytes, start, end)) > MAX_FRAMES || open!.bytes > maxBytes) {
        throw tooLarge()
      }
      if (!(flags & FLAG.endHeaders)) return
      open = undefined
      const block = Buffer.concat(parts)
      complete(id, endStream, block, 0, block.length)
    },
  }
}

const copyOf = (bytes: Buffer, start: number, end: number): Buffer => Buffer.from(bytes.subarray(start, end))
