// Resources and scopes repeat from request to request, byte for byte. What one says is read once and shared.

import { readEnvelope } from './read.ts'
import type { Envelope } from './span_batch.ts'

type Kind = 'resource' | 'scope'

/** One place for each hash; whoever comes last has it. */
const PLACES = 512
/** Larger ones are read each time: what is kept here is never more than so much for each place, and what became of it. */
const LARGEST = 4_096

const known: Record<Kind, (Envelope | undefined)[]> = { resource: [], scope: [] }

/** As readEnvelope, save that the bytes of the envelope may be memory of its own. */
export function knownEnvelope(kind: Kind, bytes: Buffer, schemaUrl: string): Envelope {
  if (bytes.length > LARGEST) return readEnvelope(kind, bytes, schemaUrl)
  const place = hash(bytes) % PLACES
  const found = known[kind][place]
  if (found && found.schema_url === schemaUrl && found.bytes.equals(bytes)) return found
  return (known[kind][place] = readEnvelope(kind, Buffer.from(bytes), schemaUrl))
}

function hash(bytes: Buffer): number {
  let h = bytes.length
  for (let i = 0; i < bytes.length; i++) h = Math.imul(h ^ bytes[i]!, 0x01000193)
  return h >>> 0
}
