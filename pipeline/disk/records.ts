// How a queue's records lie in a file. Each says how long it is, and carries a checksum and its sequence number, so that what
// a crash or a bad disk did to it is seen. Little-endian:
//   u32 bytes of payload | u32 CRC-32 of all that follows | u64 sequence | u32 items | u32 kind | payload

import type { FileHandle } from 'node:fs/promises'
import { crc32 } from 'node:zlib'

export interface NewRecord {
  /** Spans or log records in it, for counting. */
  readonly items: number
  /** What the payload is; the queue's user decides. */
  readonly kind: number
  readonly payload: Buffer
}

export interface StoredRecord extends NewRecord {
  /** One more than that of the record before it. */
  readonly sequence: number
}

export interface FoundRecord extends StoredRecord {
  /** Whether the checksum fits. Where it does not, only `sequence` and `end` mean anything. */
  readonly whole: boolean
  /** Where the next record begins. */
  readonly end: number
}

export const HEADER_BYTES = 24
const CHECKED_FROM = 8
/** Read at once, unless a record is longer. */
const WINDOW_BYTES = 1 << 20

/** The record as it is written: its header, and its payload as it is. */
export function framed({ items, kind, payload }: NewRecord, sequence: number): [Buffer, Buffer] {
  const header = Buffer.allocUnsafe(HEADER_BYTES)
  header.writeUInt32LE(payload.length, 0)
  header.writeBigUInt64LE(BigInt(sequence), 8)
  header.writeUInt32LE(items, 16)
  header.writeUInt32LE(kind, 20)
  header.writeUInt32LE(crc32(payload, crc32(header.subarray(CHECKED_FROM))), 4)
  return [header, payload]
}

/** The records between two offsets of a file, of which the first must be number `sequence`. Ends early where no record can be made out. */
export async function* records(file: FileHandle, from: number, until: number, sequence: number): AsyncGenerator<FoundRecord> {
  let window = Buffer.alloc(0)
  let at = from

  /** The next bytes of the file, or undefined where there are not so many. */
  async function peek(size: number): Promise<Buffer | undefined> {
    if (size > until - at) return undefined
    if (size > window.length) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(Math.min(until - at, Math.max(size, WINDOW_BYTES))), {
        position: at,
      })
      window = buffer.subarray(0, bytesRead)
      if (size > window.length) return undefined
    }
    return window.subarray(0, size)
  }

  for (;;) {
    const header = await peek(HEADER_BYTES)
    if (!header || header.readBigUInt64LE(8) !== BigInt(sequence)) return
    const bytes = await peek(HEADER_BYTES + header.readUInt32LE(0))
    if (!bytes) return
    at += bytes.length
    window = window.subarray(bytes.length)
    yield {
      sequence: sequence++,
      items: bytes.readUInt32LE(16),
      kind: bytes.readUInt32LE(20),
      payload: bytes.subarray(HEADER_BYTES),
      whole: crc32(bytes.subarray(CHECKED_FROM)) === bytes.readUInt32LE(4),
      end: at,
    }
  }
}
