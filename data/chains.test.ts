import { expect, test } from 'vitest'

import { chains } from './chains.ts'
import type { Message } from './dialect.ts'

const message = (role: Message['role'], text: string): Message => ({ role, parts: [{ kind: 'text', text }] })
const user = (text: string) => message('user', text)
const assistant = (text: string) => message('assistant', text)

/** Parents of calls, each a prompt and its completion. */
const parents = (...calls: [prompt: Message[], completion: Message | null, scope?: string][]) =>
  chains(
    calls.map(([prompt, completion]) => ({ prompt, ...(completion ? { completion } : {}) })),
    (step) => calls[step]![2] ?? '',
  )

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

/** The same by definition: everything is told apart by all it holds. */
function plainly(calls: Parameters<typeof chains>[0], scopes: readonly string[]): number[] {
  const open = new Map<string, number>()
  return calls.map(({ prompt, completion }, step) => {
    const scope = scopes[step]
    const beginnings = prompt.map((_, i) => JSON.stringify([scope, ...prompt.slice(0, i + 1)]))
    const extended = beginnings.findLast((beginning) => open.has(beginning)) ?? ''
    const parent = open.get(extended) ?? -1
    open.delete(extended)
    if (completion) open.set(JSON.stringify([scope, ...prompt, completion]), step)
    return parent
  })
}

test('random conversations make the chains that comparing everything makes', () => {
  let seed = 7
  const random = (below: number) => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % below
  // Texts of one length that differ only in their middle, and more of them than are compared one by one.
  const texts = Array.from({ length: 20 }, (_, i) => `${'x'.repeat(30)}${i + 10}${'y'.repeat(30)}`).concat('a', '', 'b')
  const any = (role: Message['role']) => message(role, texts[random(texts.length)]!)
  for (let run = 0; run < 50; run++) {
    const calls: { prompt: Message[]; completion: Message | undefined }[] = []
    const scopes: string[] = []
    const [asker, answerer] = run % 5 === 0 ? (['assistant', 'user'] as const) : (['user', 'assistant'] as const)
    let said: Message[] = []
    for (let step = 0; step < 20; step++) {
      if (random(5) === 0) said = said.slice(0, random(said.length + 1))
      said = [...said, any(asker)]
      const completion = random(6) === 0 ? undefined : any(answerer)
      calls.push({ prompt: said, completion })
      scopes.push(`agent ${random(2)}`)
      // Every tenth run asks single questions.
      if (run % 10 === 9) said = []
      else if (completion) said = [...said, completion]
    }
    expect(chains(calls, (step) => scopes[step]!)).toEqual(plainly(calls, scopes))
  }
})
