import { expect, test } from 'vitest'

import type { Part } from './dialect.ts'
import { heldText, hold, sameText, textEnd, textEndsWith, textIncludes, textKeeper, textLook, textSize } from './held_text.ts'

const LONG = 'Zürich, 東京 and 𝄞. '.repeat(30)
const parts: Part[] = [
  { kind: 'text', text: LONG },
  { kind: 'text', text: `${LONG}[REDACTED]` },
  { kind: 'reasoning', text: LONG.toUpperCase() },
  { kind: 'tool_result', id: 'call_1', text: 'x'.repeat(2 << 20), is_error: true },
  { kind: 'tool_result', name: 'f', text: '' },
  { kind: 'text', text: 'short' },
  { kind: 'text', text: '東京'.repeat(50) },
  { kind: 'text', text: `half a pair \ud834 ${LONG}` },
  { kind: 'tool_call', name: 'f', arguments: LONG },
  { kind: 'media' },
]

/** Held, and kept. */
function kept(): Part[] {
  const held = parts.map(hold)
  held.forEach(textKeeper())
  return held
}

test('a part whose text is held is the part that it was, before it is kept and afterwards', () => {
  const keep = textKeeper()
  for (const part of parts) {
    const held = hold(part)
    for (const when of ['before', 'afterwards']) {
      if (when === 'afterwards') keep(held)
      expect(held).toEqual(part)
      expect({ ...held }).toEqual(part)
      expect(JSON.stringify(held)).toBe(JSON.stringify(part))
    }
  }
})

test('a part made of bytes is the part made of their text, also when the bytes are gone', () => {
  const bytes = Buffer.from(LONG)
  const part = heldText(bytes)
  textKeeper()(part)
  bytes.fill(0)
  expect(part).toEqual(parts[0])
  expect(JSON.stringify(part)).toBe(JSON.stringify(parts[0]))
})

test('what is asked of texts has one answer, held or not', () => {
  const held = kept()
  for (const [i, a] of parts.entries()) {
    expect(textSize(held[i]!)).toBe(textSize(a))
    expect(textLook(held[i]!)).toBe(textLook(a))
    for (const end of [']', '.', 'x']) expect(textEndsWith(held[i]!, end)).toBe(textEndsWith(a, end))
    expect(textEnd(held[i]!, 8).at(-1)).toBe(textEnd(a, 8).at(-1))
    for (const looked of ['[REDACTED', 'Action Input:', 'rich', 'XXX']) expect(textIncludes(held[i]!, looked)).toBe(textIncludes(a, looked))
    for (const [j, b] of parts.entries()) {
      expect(sameText(held[i]!, held[j]!)).toBe(sameText(a, b))
      expect(sameText(held[i]!, b)).toBe(sameText(a, b))
    }
  }
})
