import { expect, test } from 'vitest'

import { damaged, randomMessage } from '../test/otlp/random.ts'
import { seeded } from '../test/random.ts'
import { findEnvelope, knownEnvelope, newEnvelope } from './known_envelopes.ts'
import { InstrumentationScope, Resource } from './otlp_messages.ts'
import { readEnvelope } from './read.ts'
import type { Envelope } from './span_batch.ts'

const MESSAGES = [Resource, InstrumentationScope]
const KINDS = ['resource', 'scope'] as const
const SCHEMAS = ['', 'https://schema/1', 'https://schema/2']

test('whatever was seen before, an envelope is what its bytes say', () => {
  const random = seeded(1)
  // More than there is room to remember, some larger than is ever remembered, some damaged.
  const pool = Array.from({ length: 800 }, (_, i) => {
    const bytes = randomMessage(random, MESSAGES[random(2)]!)
    return random(4) === 0 ? damaged(random, bytes) : i % 50 === 0 ? Buffer.concat(Array<Buffer>(40).fill(bytes)) : bytes
  })
  const seen = new Set<Envelope | Error>()
  let again = 0
  for (let run = 0; run < 2_000; run++) {
    // Half of the time one of a few, as agents send them.
    const bytes = pool[random(random(2) ? 8 : pool.length)]!
    const [kind, schemaUrl] = [KINDS[random(2)]!, SCHEMAS[random(3)]!]
    const memory = Buffer.from(bytes)
    const known = attempt(() => knownEnvelope(kind, memory, schemaUrl))
    expect(known).toEqual(attempt(() => readEnvelope(kind, bytes, schemaUrl)))
    if (seen.has(known)) again++
    seen.add(known)
    memory.fill(0xee) // a receiver uses its memory again
  }
  expect(again).toBeGreaterThan(100)
})

function attempt<T>(work: () => T): T | Error {
  try {
    return work()
  } catch (error) {
    return error as Error
  }
}

test('only what was checked counts as checked', () => {
  const bytes = Buffer.from([18, 3, 1, 2, 3])
  knownEnvelope('resource', bytes, '')
  expect(findEnvelope('resource', bytes, 0, 5)).toBeUndefined()
  const envelope = newEnvelope('resource', bytes, 0, 5, '', 1)
  expect(findEnvelope('resource', bytes, 0, 5)).toEqual({ envelope, parts: 1 })
  expect(knownEnvelope('resource', bytes, '')).toBe(envelope)
  expect(findEnvelope('scope', bytes, 0, 5)).toBeUndefined()
})
