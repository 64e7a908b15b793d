// A resource or scope that may come in pieces: protobuf allows any number, and nobody sends more than one.

import { findEnvelope, newEnvelope, type Kind, type Known } from './known_envelopes.ts'
import { readEnvelope } from './read.ts'
import type { Envelope } from './span_batch.ts'
import { Malformed } from './wire.ts'

const MAX_PIECES = 100

/** Where the only one stands, of how many messages it consists, and what is known of it; once there are more, all of them. */
export interface Pieces {
  start: number
  end: number
  parts: number
  known: Known | undefined
  all: Buffer[] | undefined
}

export const noPieces = (): Pieces => ({ start: 0, end: 0, parts: 0, known: undefined, all: undefined })

/** As there were none, for the next. */
export function forgetPieces(pieces: Pieces): void {
  pieces.start = pieces.end = pieces.parts = 0
  pieces.known = pieces.all = undefined
}

/** One that stands from `start` to `end`. None stands at 0: its tag comes before it. */
export function addPiece(pieces: Pieces, bytes: Buffer, start: number, end: number, parts: number, known: Known | undefined): void {
  if (pieces.start === 0) {
    pieces.start = start
    pieces.end = end
    pieces.parts = parts
    pieces.known = known
    return
  }
  pieces.all ??= [bytes.subarray(pieces.start, pieces.end)]
  if (pieces.all.length === MAX_PIECES) throw new Malformed(`a resource or scope in more than ${MAX_PIECES} pieces at byte ${start}`)
  pieces.all.push(bytes.subarray(start, end))
}

/** A message sent in pieces is their concatenation: that is how protobuf merges. */
export function joinPieces(kind: Kind, bytes: Buffer, { start, end, parts, known, all }: Pieces, schemaUrl: string): Envelope {
  if (all) return readEnvelope(kind, Buffer.concat(all), schemaUrl)
  const found = known ?? findEnvelope(kind, bytes, start, end)
  return found?.envelope.schema_url === schemaUrl ? found.envelope : newEnvelope(kind, bytes, start, end, schemaUrl, parts)
}
