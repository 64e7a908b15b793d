// Resources and scopes repeat from request to request, byte for byte. What one says is read once and shared.

import { readEnvelope } from './read.ts'
import type { Envelope } from './span_batch.ts'

type Kind = 'resource' | 'scope'

/** One place for each hash; whoever comes last has it. */
const PLACES = 512
/** Larger ones are read each time: what is kept here is never more than so much for each place, and what became of it. */
const LARGEST = 4_096

const known: Record<Kind, (Envelope | undefined)[]> = { resource: [], scope: [] }

/** As readEnvelope, of what stands from `start` to `end`, save that the bytes of the envelope may be memory of its own. */
export function knownEnvelope(kind: Kind, bytes: Buffer, schemaUrl: string, start = 0, end = bytes.length): Envelope {
  if (end - start > LARGEST) return readEnvelope(kind, bytes.subarray(start, end), schemaUrl)
  const place = hash(bytes, start, end) & (PLACES - 1)
  const found = known[kind][place]
  if (found && found.schema_url === schemaUrl && isSame(found.bytes, bytes, start, end)) return found
  return (known[kind][place] = readEnvelope(kind, Buffer.from(bytes.subarray(start, end)), schemaUrl))
}

/** Of four bytes at a time, as each multiplication waits for the one before. */
function hash(bytes: Buffer, start: number, end: number): number {
  let h = end - start
  let i = start
  for (; i + 4 <= end; i += 4) {
    h = Math.imul(h ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)), 0x9e3779b1)
    h ^= h >>> 15
  }
  for (; i < end; i++) h = Math.imul(h ^ bytes[i]!, 0x01000193)
  return h ^ (h >>> 15)
}

function isSame(known: Buffer, bytes: Buffer, start: number, end: number): boolean {
  if (known.length !== end - start) return false
  for (let i = 0; i < known.length; i++) if (known[i] !== bytes[start + i]) return false
  return true
}
