import { expect, test } from 'vitest'

import type { Message } from './dialect.ts'
import { messageSharer } from './share_messages.ts'

const said = (text: string, more: Partial<Message> = {}): Message => ({ role: 'user', parts: [{ kind: 'text', text }], ...more })

test('equal messages become one object, and what differs anywhere stays apart', () => {
  const share = messageSharer()
  const first = share(said('a'.repeat(500)))
  expect(share(said('a'.repeat(500)))).toBe(first)
  const others = [
    said(`${'a'.repeat(250)}b${'a'.repeat(249)}`),
    said('a'.repeat(500), { name: 'someone' }),
    said('a'.repeat(500), { role: 'tool' }),
    said('', { parts: [{ kind: 'reasoning', text: 'a'.repeat(500) }] }),
    said('', { parts: [{ kind: 'tool_call', name: 'f', arguments: 'a'.repeat(500) }] }),
  ]
  const shared = others.map(share)
  expect(shared).toEqual(others)
  expect(new Set([first, ...shared]).size).toBe(1 + others.length)
})

test('what is said is shared, however long it is', () => {
  const share = messageSharer()
  const long = (i: number) => said('ä'.repeat(500_000 + i))
  const first = Array.from({ length: 20 }, (_, i) => share(long(i)))
  for (const [i, message] of first.entries()) {
    expect(message).toEqual(long(i))
    expect(share(long(i))).toBe(message)
  }
})

test('of any number of messages that look alike each stays itself', () => {
  const share = messageSharer()
  const alike = Array.from({ length: 100 }, (_, i) => said(`${'a'.repeat(1_001)}${String(i).padStart(3, '0')}${'a'.repeat(10_001)}`))
  for (const message of alike) expect(share(message)).toEqual(message)
})
