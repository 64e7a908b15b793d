// The body of a unary call: five bytes (compressed or not, and a length), then the message. Its memory comes from the pool once its
// length is known, and each byte is copied there once.

import { Failure, STATUS, type GrpcLimits, type Limit } from './grpc.ts'
import type { Pool } from '../pool.ts'

export interface Body {
  /** As the request's headers say. */
  readonly encoding: string
  readonly contentLength: number | undefined
  /** How many bytes of the prefix have come, and what they say. */
  prefix: number
  compressed: number
  length: number
  /** Where the message goes, and how much of it is there. */
  slot: Buffer | undefined
  got: number
}

export interface Bodies {
  /** Takes what has come. Throws Failure when the call cannot go on, Refused when there is no memory. */
  append(body: Body, bytes: Buffer, start: number, end: number): void
  /** Says whether content-length was true; throws Failure when there is not exactly one message. */
  isWhole(body: Body): boolean
  message(body: Body): Buffer
  release(body: Body): void
}

export const PREFIX = 5
const FIRST_GRANT = 16 << 10
const EMPTY = Buffer.alloc(0)

/** Whether nothing stands here but a prefix and the message that it announces, not compressed. */
export const isOneMessage = (bytes: Buffer, start: number, end: number): boolean =>
  end - start >= PREFIX && bytes[start] === 0 && bytes.readUInt32BE(start + 1) === end - start - PREFIX

export function createBodies(pool: Pool, limits: GrpcLimits, limited: (limit: Limit) => void): Bodies {
  function append(body: Body, bytes: Buffer, from: number, to: number): void {
    let start = from
    while (body.prefix < PREFIX && start < to) {
      const byte = bytes[start++]!
      if (body.prefix === 0) body.compressed = byte
      else body.length = body.length * 256 + byte
      if (++body.prefix === PREFIX) begin(body)
    }
    if (start === to) return
    const got = body.got + to - start
    if (got > body.length) throw new Failure(STATUS.unimplemented, 'more than one message in a unary call')
    if (got > body.slot!.length) enlarge(body, got)
    bytes.copy(body.slot!, body.got, start, to)
    body.got = got
  }

  function begin(body: Body): void {
    const { compressed, encoding, length } = body
    if (compressed > 1) throw new Failure(STATUS.internal, `no message begins with ${compressed}`)
    if (compressed === 1 && encoding === 'identity') throw new Failure(STATUS.internal, 'a compressed message without grpc-encoding')
    if (compressed === 1 && encoding !== 'gzip') throw new Failure(STATUS.unimplemented, `grpc-encoding ${encoding} is not supported`)
    if (length > limits.maxMessageBytes) {
      limited('message_bytes')
      throw new Failure(STATUS.resourceExhausted, `a message of ${length} bytes, ${limits.maxMessageBytes} are allowed`)
    }
    // Whoever announces much and sends little must not take memory from the others: past half of it, only what has come counts.
    const all = pool.used() + length <= limits.maxBytesInFlight / 2
    if (length > 0) body.slot = pool.take(all ? length : Math.min(length, FIRST_GRANT))
  }

  function enlarge(body: Body, needed: number): void {
    const small = body.slot!
    body.slot = pool.take(Math.min(body.length, Math.max(needed, 2 * small.length)))
    small.copy(body.slot, 0, 0, body.got)
    pool.give(small)
  }

  return {
    append,
    isWhole({ contentLength, prefix, length, got }) {
      if (contentLength !== undefined && contentLength !== prefix + got) return false
      if (prefix === 0) throw new Failure(STATUS.unimplemented, 'a unary call without a message')
      if (prefix < PREFIX || got < length) throw new Failure(STATUS.internal, `the message is cut short after ${got} of ${length} bytes`)
      return true
    },
    message: ({ slot, length }) => slot?.subarray(0, length) ?? EMPTY,
    release(body) {
      if (body.slot) pool.give(body.slot)
      body.slot = undefined
    },
  }
}
