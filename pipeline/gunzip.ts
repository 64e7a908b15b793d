// Unpacks gzip for the servers of every transport. Memory for the result is charged before it is used: a small message may hold a huge one.

import { promisify } from 'node:util'
import { gunzip, gunzipSync, type ZlibOptions } from 'node:zlib'

export interface Unpacking {
  /** The largest result that is allowed. */
  readonly maxBytes: number
  /** Charges memory. Throws where there is none. */
  reserve(bytes: number): void
  release(bytes: number): void
  /** Does work for the thread pool, when it may begin. */
  inTurn<Result>(work: () => Promise<Result>): Promise<Result>
  /** What is thrown for what is no gzip, or not all of it, and for what unpacks to more than is allowed. */
  broken(why: string): Error
  tooLarge(): Error
}

export interface Unpacked {
  readonly unpacked: Buffer
  /** What is charged for it, to be released when it has been read. */
  readonly reserved: number
}

/** Deflate makes 258 bytes of two bits at best: what is said to be more has lost its end, or lies. */
const LARGEST_RATIO = 1_032
/** Spans pack to a half or a fifth. What says that it is much more is believed when so much has come out of it: its end may be damaged. */
const LIKELY_RATIO = 16
/** Of what turns out to be more than it says, having several members, so many times more is tried. */
const GROWTH = 8
/** What is no larger, packed and unpacked, is unpacked at once: handing it to the thread pool takes as long (4 KiB: 35 µs of CPU). */
const SMALL_PACKED = 4 << 10
const SMALL = 32 << 10

export async function unpack(packed: Buffer, how: Unpacking): Promise<Unpacked> {
  const said = announcedSize(packed)
  const possible = packed.length * LARGEST_RATIO
  if (said > possible) throw how.broken('it is not whole')
  if (said > how.maxBytes) throw how.tooLarge()
  const most = Math.min(how.maxBytes, possible)
  let size = Math.min(said, packed.length * LIKELY_RATIO)
  for (;;) {
    const isSmall = packed.length <= SMALL_PACKED && size <= SMALL
    const done = await (isSmall ? within(size, packed, how, gunzipSync) : how.inTurn(() => within(size, packed, how, gunzipLater)))
    if (done) return done
    if (size === most) throw how.tooLarge()
    size = size < said ? said : Math.min(Math.max(size, packed.length) * GROWTH, most)
  }
}

/** The last four bytes of gzip: the size of its last member, which is all there is, nearly always. */
function announcedSize(packed: Buffer): number {
  return packed.length < 18 ? 0 : packed.readUInt32LE(packed.length - 4)
}

type Gunzip = (packed: Buffer, options: ZlibOptions) => Buffer | Promise<Buffer>
const gunzipLater: Gunzip = promisify<Buffer, ZlibOptions, Buffer>(gunzip)

/** Undefined where it unpacks to more than `size`. */
async function within(size: number, packed: Buffer, how: Unpacking, gunzipNow: Gunzip): Promise<Unpacked | undefined> {
  // One chunk with a byte to spare: the result is not copied, and never larger than what was reserved.
  const reserved = size + 1
  const options = { maxOutputLength: Math.max(size, 1), chunkSize: Math.max(reserved, 64) }
  how.reserve(reserved)
  try {
    return { unpacked: await gunzipNow(packed, options), reserved }
  } catch (error) {
    how.release(reserved)
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') throw how.broken((error as Error).message)
    return undefined
  }
}
