// Messages that are packed, within the memory for all of them.

import { lanes } from '../../data/lanes.ts'
import { unpack, type Unpacked, type Unpacking } from '../gunzip.ts'
import type { Pool } from '../pool.ts'
import { Failure, STATUS, type Limit } from './grpc.ts'

export type Gunzip = (packed: Buffer) => Promise<Unpacked>

/** Of the four threads in node's pool: files are read and written by the others. */
const AT_ONCE = 2

export function createGunzip({ reserve, release }: Pool, maxBytes: number, limited: (limit: Limit) => void): Gunzip {
  const unpacking: Unpacking = {
    ...{ maxBytes, reserve, release, inTurn: lanes(AT_ONCE) },
    broken: (why) => new Failure(STATUS.internal, `the message cannot be unpacked: ${why}`),
    tooLarge() {
      limited('message_bytes')
      return new Failure(STATUS.resourceExhausted, `a message of more than ${maxBytes} bytes after decompression`)
    },
  }
  return (packed) => unpack(packed, unpacking)
}
