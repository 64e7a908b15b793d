// Resources and scopes repeat from request to request, byte for byte. What one says is read once and shared.

import { readEnvelope } from './read.ts'
import type { Envelope } from './span_batch.ts'

export type Kind = 'resource' | 'scope'

/** One that was read. */
export interface Known {
  readonly envelope: Envelope
  /** Of how many messages it consists, as check() tells; UNCHECKED where that was not asked, as of what was stored. */
  readonly parts: number
}

const UNCHECKED = -1

/** One place for each hash; whoever comes last has it. */
const PLACES = 512
/** Larger ones are read each time: what is kept here is never more than so much for each place, and what became of it. */
const LARGEST = 4_096

const resources = new Array<Known | undefined>(PLACES).fill(undefined)
const scopes = new Array<Known | undefined>(PLACES).fill(undefined)

/** As readEnvelope, save that the bytes of the envelope may be memory of its own. */
export function knownEnvelope(kind: Kind, bytes: Buffer, schemaUrl: string): Envelope {
  const found = find(kind, bytes, 0, bytes.length)
  if (found?.envelope.schema_url === schemaUrl) return found.envelope
  return newEnvelope(kind, bytes, 0, bytes.length, schemaUrl, UNCHECKED)
}

/** What stands from `start` to `end`, if it is known and was checked. */
export function findEnvelope(kind: Kind, bytes: Buffer, start: number, end: number): Known | undefined {
  const found = find(kind, bytes, start, end)
  return found?.parts === UNCHECKED ? undefined : found
}

/** As readEnvelope, of what stands from `start` to `end`, which is known from now on. */
export function newEnvelope(kind: Kind, bytes: Buffer, start: number, end: number, schemaUrl: string, parts: number): Envelope {
  if (end - start > LARGEST) return readEnvelope(kind, bytes.subarray(start, end), schemaUrl)
  const envelope = readEnvelope(kind, Buffer.from(bytes.subarray(start, end)), schemaUrl)
  placesOf(kind)[hash(bytes, start, end) & (PLACES - 1)] = { envelope, parts }
  return envelope
}

function find(kind: Kind, bytes: Buffer, start: number, end: number): Known | undefined {
  if (end - start > LARGEST) return undefined
  const found = placesOf(kind)[hash(bytes, start, end) & (PLACES - 1)]
  return found && isSame(found.envelope.bytes, bytes, start, end) ? found : undefined
}

const placesOf = (kind: Kind) => (kind === 'resource' ? resources : scopes)

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
