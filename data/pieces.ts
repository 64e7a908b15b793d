// A resource or scope that may come in pieces: protobuf allows any number, and nobody sends more than one.

import { knownEnvelope } from './known_envelopes.ts'
import type { Envelope } from './span_batch.ts'
import { Malformed } from './wire.ts'

const MAX_PIECES = 100

/** Where the only one stands; once there are more, all of them. */
export interface Pieces {
  start: number
  end: number
  all: Buffer[] | undefined
}

export const noPieces = (): Pieces => ({ start: 0, end: 0, all: undefined })

/** One that stands from `start` to `end`. None stands at 0: its tag comes before it. */
export function addPiece(pieces: Pieces, bytes: Buffer, start: number, end: number): void {
  if (pieces.start === 0) {
    pieces.start = start
    pieces.end = end
    return
  }
  pieces.all ??= [bytes.subarray(pieces.start, pieces.end)]
  if (pieces.all.length === MAX_PIECES) throw new Malformed(`a resource or scope in more than ${MAX_PIECES} pieces at byte ${start}`)
  pieces.all.push(bytes.subarray(start, end))
}

/** A message sent in pieces is their concatenation: that is how protobuf merges. */
export function joinPieces(kind: 'resource' | 'scope', bytes: Buffer, { start, end, all }: Pieces, schemaUrl: string): Envelope {
  return all ? knownEnvelope(kind, Buffer.concat(all), schemaUrl) : knownEnvelope(kind, bytes, schemaUrl, start, end)
}
