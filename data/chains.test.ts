import { expect, test } from 'vitest'

import { chains } from './chains.ts'
import type { Message } from './dialect.ts'

const message = (role: Message['role'], text: string): Message => ({ role, parts: [{ kind: 'text', text }] })
const user = (text: string) => message('user', text)
const assistant = (text: string) => message('assistant', text)

/** Parents of calls, each a prompt and its completion. */
const parents = (...calls: [prompt: Message[], completion: Message | null, scope?: string][]) => {
  const parentOf = chains()
  return calls.map(([prompt, completion, scope = ''], step) => parentOf({ prompt, ...(completion ? { completion } : {}) }, scope, step))
}

const first: [Message[], Message] = [[user('a')], assistant('b')]
const second: [Message[], Message] = [[user('a'), assistant('b'), user('c')], assistant('d')]
const third: [Message[], Message] = [[...second[0], second[1], user('e')], assistant('f')]

test('a call that sends the conversation so far extends the call before it', () => {
  expect(parents(first, second, third)).toEqual([-1, 0, 1])
})

test('a second branch from one call begins anew, and is extended in turn', () => {
  const branch: typeof second = [[...first[0], first[1], user('other')], assistant('x')]
  const further: typeof second = [[...branch[0], branch[1], user('y')], assistant('z')]
  expect(parents(first, second, branch, third, further)).toEqual([-1, 0, -1, 1, 2])
})

test('agents that talk at the same time keep chains of their own', () => {
  expect(parents([...first, 'writer'], [...first, 'critic'], [...second, 'critic'], [...second, 'writer'])).toEqual([-1, -1, 1, 0])
})

test('a changed system prompt or a rewritten answer begins anew', () => {
  expect(parents(first, [[message('system', 's'), ...second[0]], null], [[user('a'), assistant('B'), user('c')], null])).toEqual([
    -1, -1, -1,
  ])
})

test('a call without a completion cannot be extended', () => {
  expect(parents([[user('a')], null], second)).toEqual([-1, -1])
})

test('the longest of several beginnings is extended', () => {
  expect(parents(first, second, first, third)).toEqual([-1, 0, -1, 1])
})
