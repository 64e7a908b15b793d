import { expect, test } from 'vitest'

import type { Part } from './dialect.ts'
import { sameText, textHolder, textIncludes, textLength, textLook } from './held_text.ts'

const LONG = 'Zürich, 東京 and 𝄞. '.repeat(30)
const parts: Part[] = [
  { kind: 'text', text: LONG },
  { kind: 'text', text: `${LONG}[REDACTED]` },
  { kind: 'reasoning', text: LONG.toUpperCase() },
  { kind: 'tool_result', id: 'call_1', text: 'x'.repeat(2 << 20), is_error: true },
  { kind: 'tool_result', name: 'f', text: '' },
  { kind: 'text', text: 'short' },
  { kind: 'text', text: `half a pair \ud834 ${LONG}` },
  { kind: 'tool_call', name: 'f', arguments: LONG },
  { kind: 'media' },
]

test('a part whose text is held is the part that it was', () => {
  const hold = textHolder()
  for (const part of parts) {
    const held = hold(part)
    expect(held).toEqual(part)
    expect({ ...held }).toEqual(part)
    expect(JSON.stringify(held)).toBe(JSON.stringify(part))
  }
})

test('what is asked of texts has one answer, held or not', () => {
  const hold = textHolder()
  const held = parts.map(hold)
  for (const [i, a] of parts.entries()) {
    expect(textLength(held[i]!)).toBe(textLength(a))
    expect(textLook(held[i]!)).toBe(textLook(a))
    for (const looked of ['[REDACTED', 'Action Input:', 'rich', 'XXX']) expect(textIncludes(held[i]!, looked)).toBe(textIncludes(a, looked))
    for (const [j, b] of parts.entries()) {
      expect(sameText(held[i]!, held[j]!)).toBe(sameText(a, b))
      expect(sameText(held[i]!, b)).toBe(sameText(a, b))
    }
  }
})
