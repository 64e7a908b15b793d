// Unpacks gzip messages on the thread pool, with the memory for the result reserved before: a small message may hold a huge one.

import { gunzip, type ZlibOptions } from 'node:zlib'
import { promisify } from 'node:util'

import { Failure, STATUS, type Limit } from './grpc.ts'
import type { Pool } from '../pool.ts'

export interface Unpacked {
  readonly unpacked: Buffer
  /** To be released to the pool when it has been read. */
  readonly reserved: number
}
export type Gunzip = (packed: Buffer) => Promise<Unpacked>

/** Deflate makes 258 bytes of two bits at best. */
const LARGEST_RATIO = 1_032
/** Of the four threads in node's pool: files are read and written by the others. */
const AT_ONCE = 2

export function createGunzip(pool: Pool, maxBytes: number, limited: (limit: Limit) => void): Gunzip {
  const unpack = promisify<Buffer, ZlibOptions, Buffer>(gunzip)
  const turns: (() => void)[] = []
  let running = 0

  return async (packed) => {
    if (running === AT_ONCE) await new Promise<void>((turn) => turns.push(turn))
    else running++
    try {
      return await unpackWithin(packed, announcedSize(packed))
    } finally {
      const next = turns.shift()
      if (next) next()
      else running--
    }
  }

  async function unpackWithin(packed: Buffer, size: number): Promise<Unpacked> {
    if (size > packed.length * LARGEST_RATIO) throw broken('it is not whole')
    if (size > maxBytes) throw tooLarge()
    const reserved = size + 1
    pool.reserve(reserved)
    try {
      // One chunk with a byte to spare: the result is not copied, and never larger than what was reserved.
      return { unpacked: await unpack(packed, { maxOutputLength: Math.max(size, 1), chunkSize: Math.max(reserved, 64) }), reserved }
    } catch (error) {
      pool.release(reserved)
      if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') {
        throw broken((error as Error).message)
      }
      // Several members, or a lie: it gets as much as is allowed at all.
      if (size === maxBytes) throw tooLarge()
      return unpackWithin(packed, maxBytes)
    }
  }

  function broken(why: string): Failure {
    return new Failure(STATUS.internal, `the message cannot be unpacked: ${why}`)
  }

  function tooLarge(): Failure {
    limited('message_bytes')
    return new Failure(STATUS.resourceExhausted, `a message of more than ${maxBytes} bytes after decompression`)
  }
}

/** The last four bytes of gzip: the size of its last member, which is all there is, nearly always. */
function announcedSize(packed: Buffer): number {
  return packed.length < 18 ? 0 : packed.readUInt32LE(packed.length - 4)
}
