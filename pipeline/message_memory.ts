// Memory for messages that come in pieces, and whose length is announced: each byte is copied there once.

import { copyBytes } from '../data/shared_memory.ts'
import type { Pool } from './pool.ts'

export interface Message {
  length: number
  /** Where it goes, and how much of it is there. */
  slot: Buffer | undefined
  got: number
}

/** What it is taken from. */
export type Lender = Pick<Pool, 'take' | 'give' | 'isHalfFree'>

export interface MessageMemory {
  /** Finds room for it. Throws Refused where there is none. */
  begin(message: Message): void
  /** Takes what has come, which is no more than was announced. Throws Refused. */
  append(message: Message, bytes: Buffer, start: number, end: number): void
  /** Where what is to come may be put before it is appended; undefined where there is no room for now. */
  rest(message: Message): Buffer | undefined
  whole(message: Message): Buffer
  release(message: Message): void
}

const FIRST_GRANT = 16 << 10
const EMPTY = Buffer.alloc(0)

export function createMessageMemory(pool: Lender): MessageMemory {
  function begin(message: Message): void {
    message.slot = pool.take(pool.isHalfFree(message.length) ? message.length : Math.min(message.length, FIRST_GRANT))
  }

  function enlarge(message: Message, needed: number): void {
    const small = message.slot!
    message.slot = pool.take(Math.min(message.length, Math.max(needed, 2 * small.length)))
    small.copy(message.slot, 0, 0, message.got)
    pool.give(small)
  }

  const isThere = ({ slot, got }: Message, bytes: Buffer, start: number): boolean =>
    bytes.byteOffset + start === slot!.byteOffset + got && bytes.buffer === slot!.buffer

  return {
    begin,
    append(message, bytes, start, end) {
      const got = message.got + end - start
      if (!message.slot) begin(message)
      if (got > message.slot!.length) enlarge(message, got)
      if (!isThere(message, bytes, start)) copyBytes(bytes, start, end, message.slot!, message.got)
      message.got = got
    },
    rest: ({ slot, got, length }) => (slot && slot.length > got ? slot.subarray(got, length) : undefined),
    whole: ({ slot, length }) => slot?.subarray(0, length) ?? EMPTY,
    release(message) {
      if (message.slot) pool.give(message.slot)
      message.slot = undefined
    },
  }
}
