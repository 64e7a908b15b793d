// The body of a unary call: five bytes (compressed or not, and a length), then the message. Its memory comes from the pool once its
// length is known, and each byte is copied there once.

import { Failure, STATUS, type GrpcLimits, type Limit } from './grpc.ts'
import { createMessageMemory, type Message } from '../message_memory.ts'
import type { Pool } from '../pool.ts'

export interface Body extends Message {
  /** As the request's headers say. */
  readonly encoding: string
  readonly contentLength: number | undefined
  /** How many bytes of the prefix have come, and what they say. */
  prefix: number
  compressed: number
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

/** Whether nothing stands here but a prefix and the message that it announces, not compressed. */
export const isOneMessage = (bytes: Buffer, start: number, end: number): boolean =>
  end - start >= PREFIX && bytes[start] === 0 && bytes.readUInt32BE(start + 1) === end - start - PREFIX

export function createBodies(pool: Pool, limits: GrpcLimits, limited: (limit: Limit) => void): Bodies {
  const memory = createMessageMemory(pool)

  function append(body: Body, bytes: Buffer, from: number, to: number): void {
    let start = from
    while (body.prefix < PREFIX && start < to) {
      const byte = bytes[start++]!
      if (body.prefix === 0) body.compressed = byte
      else body.length = body.length * 256 + byte
      if (++body.prefix === PREFIX) begin(body)
    }
    if (start === to) return
    if (body.got + to - start > body.length) throw new Failure(STATUS.unimplemented, 'more than one message in a unary call')
    memory.append(body, bytes, start, to)
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
    if (length > 0) memory.begin(body)
  }

  return {
    append,
    isWhole({ contentLength, prefix, length, got }) {
      if (contentLength !== undefined && contentLength !== prefix + got) return false
      if (prefix === 0) throw new Failure(STATUS.unimplemented, 'a unary call without a message')
      if (prefix < PREFIX || got < length) throw new Failure(STATUS.internal, `the message is cut short after ${got} of ${length} bytes`)
      return true
    },
    message: memory.whole,
    release: memory.release,
  }
}
