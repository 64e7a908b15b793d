import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { knownTexts } from './known_texts.ts'
import { text } from './wire.ts'

const field = (bytes: Buffer) => Buffer.concat([Buffer.of(bytes.length), bytes])

test('whatever the bytes are, and whatever was read before, the text is the one that they spell', () => {
  const known = knownTexts(48)
  const random = seeded(1)
  const alphabets = ['ab', 'aé', 'a\u{1f600}東', '\u0000\u007f\u0080ÿ']
  for (let i = 0; i < 20_000; i++) {
    const alphabet = [...alphabets[i % alphabets.length]!]
    const said = Array.from({ length: random(8) }, () => alphabet[random(alphabet.length)]!).join('')
    // Half of them as no UTF-8 at all: é is one byte then.
    const bytes = field(Buffer.from(said, i % 8 < 4 ? 'utf8' : 'latin1'))
    expect(known({ bytes, pos: 0 }, bytes.length)).toBe(text({ bytes, pos: 0 }, bytes.length))
  }
})

test('one that is read again is the same string, and where reading stands is behind it', () => {
  const known = knownTexts(4)
  const bytes = Buffer.concat([field(Buffer.from('chat')), field(Buffer.from('longer'))])
  const c = { bytes, pos: 0 }
  expect([known(c, bytes.length), known(c, bytes.length), c.pos]).toEqual(['chat', 'longer', bytes.length])
})
