import { expect, test } from 'vitest'

import { openRows, putString, putVarint, written } from './row_binary.ts'

/** By definition: its length in bytes, then its bytes. */
function plainly(text: string): Buffer {
  const length = openRows(8)
  putVarint(length, Buffer.byteLength(text))
  return Buffer.concat([written(length), Buffer.from(text)])
}

test('a string is its length in bytes and its bytes, whatever it is made of and wherever its length grows by a byte', () => {
  const lengths = [0, 1, 42, 43, 63, 64, 126, 127, 128, 5_461, 8_191, 8_192, 16_383, 16_384, 65_536, 65_537, 700_000]
  for (const unit of ['a', 'é', '東', '🙂', '\ud83d', 'aé東']) {
    const rows = openRows(4)
    const texts = lengths.map((length) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length))
    for (const text of texts) putString(rows, text)
    expect(written(rows).equals(Buffer.concat(texts.map(plainly)))).toBe(true)
  }
})
