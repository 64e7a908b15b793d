import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { head, readHead } from './head.ts'
import { extentFinder, type Extent } from './marks.ts'
import { readSpan } from './read.ts'

const random = seeded(11)
const pick = <T>(from: readonly T[]): T => from[random(from.length)]!

const field = (tag: number, ...parts: readonly (Buffer | string)[]): Buffer => {
  const bytes = Buffer.concat(parts.map((part) => Buffer.from(part)))
  const { length } = bytes
  return Buffer.concat([Buffer.of(tag, ...(length < 128 ? [length] : [(length & 127) | 128, length >> 7])), bytes])
}

const TEXTS = [
  '',
  'mark',
  'asked',
  'http.method',
  'server.address',
  'clé',
  '東京',
  'a'.repeat(63),
  'a'.repeat(64),
  'a'.repeat(65),
  'mark'.repeat(50),
]
const text = () => pick(TEXTS)
const VALUES = [() => field(18, field(10, text())), () => field(18, Buffer.of(24, 5)), () => field(18), () => Buffer.alloc(0)]
const PIECES: readonly (() => Buffer)[] = [
  () => field(42, text()),
  () => field(74, field(10, text()), pick(VALUES)()),
  () => field(74, field(10, text()), pick(VALUES)()),
  () => field(74, pick(VALUES)(), field(10, text())),
  () => field(74, field(10, text()), field(10, text())),
  () => field(90, Buffer.of(9), Buffer.alloc(8, 1), field(18, text())),
  () => field(10, Buffer.alloc(16, 1 + random(3))),
  () => field(18, Buffer.alloc(pick([0, 8]), 1)),
  () => field(34, Buffer.alloc(pick([0, 8]), 2)),
  () => Buffer.concat([Buffer.of(57), Buffer.alloc(8, 3)]),
  () => Buffer.concat([Buffer.of(65), Buffer.alloc(8, 4)]),
  () => field(122, Buffer.of(24, random(3))),
  () => Buffer.of(133, 1, 0, 3, 0, 0),
]

test('how much there is to be read of a span is what its name, keys and events say, and where it stands was noted on the way', () => {
  const isMark = (said: string) => said.startsWith('mark')
  const asked = new Set(['asked', 'clé'])
  const extentOf = extentFinder({ name: isMark, key: isMark, event: isMark }, asked)
  const met = new Map<Extent, number>()
  for (let i = 0; i < 1_500; i++) {
    const payload = Buffer.concat(Array.from({ length: random(7) }, () => pick(PIECES)()))
    const { name, attributes, events } = readSpan(payload, Buffer.alloc(0), Buffer.alloc(0))
    const keys = Object.keys(attributes)
    const isWanted = [...keys, ...events.map((event) => event.name), name].some(isMark)
    const extent = extentOf(payload)
    met.set(extent, (met.get(extent) ?? 0) + 1)
    // A name that was sent twice may be a mark in its first version, which then is read for nothing.
    if (extent !== 'all' || isWanted) expect(extent).toBe(isWanted ? 'all' : keys.some((key) => asked.has(key)) ? 'asked' : 'none')
    readHead(payload)
    const noted = { ...head, of: undefined }
    readHead(Buffer.from(payload))
    expect(noted).toEqual({ ...head, of: undefined })
  }
  for (const extent of ['all', 'asked', 'none'] as const) expect(met.get(extent)).toBeGreaterThan(100)
})
