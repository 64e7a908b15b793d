// How far a queue is delivered: one small file, written over and over. Losing it costs a second delivery, never a record.

import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'

export interface Position {
  /** Sequence of the last record of which, like all before it, is known that it was delivered; 0: none. */
  readonly at: number
  save(sequence: number): Promise<void>
  close(): Promise<void>
}

const BYTES = 12

export async function openPosition(path: string): Promise<Position> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o640)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(BYTES), { position: 0 })
  const intact = bytesRead === BYTES && crc32(buffer.subarray(0, 8)) === buffer.readUInt32LE(8)
  let at = intact ? Number(buffer.readBigUInt64LE(0)) : 0
  return {
    get at() {
      return at
    },
    async save(sequence) {
      const bytes = Buffer.alloc(BYTES)
      bytes.writeBigUInt64LE(BigInt(sequence), 0)
      bytes.writeUInt32LE(crc32(bytes.subarray(0, 8)), 8)
      await file.write(bytes, 0, BYTES, 0)
      at = sequence
    },
    close: () => file.close(),
  }
}
