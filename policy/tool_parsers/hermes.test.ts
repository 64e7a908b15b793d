import { describe, expect, test } from 'vitest'

import { seeded } from '../../test/random.ts'
import hermes from './hermes.ts'
import { toolParsers } from './index.ts'
import type { ParsedPiece } from './parser.ts'

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`

const read = (...texts: string[]) => {
  const stream = hermes.stream()
  const pieces: ParsedPiece[] = [...texts.flatMap((text) => stream.push(text)), ...stream.end()]
  return {
    content: pieces.map((piece) => (piece.kind === 'call' ? '' : piece.text)).join(''),
    calls: pieces.flatMap((piece) => (piece.kind === 'call' ? [piece.call] : [])),
    malformed: pieces.flatMap((piece) => (piece.kind === 'malformed' ? [piece.problem] : [])),
  }
}

test('it is found by its name', () => expect(toolParsers.hermes).toBe(hermes))

test('calls are taken out of the text, their arguments as they were written', () => {
  expect(read(`Let me see.${call('weather', '{"city":  "Paris"}')}${call('now', '{}')}`)).toEqual({
    content: 'Let me see.',
    calls: [
      { name: 'weather', arguments: '{"city":  "Paris"}' },
      { name: 'now', arguments: '{}' },
    ],
    malformed: [],
  })
})

test('text without calls is as it was', () => {
  expect(read(' 3 < 4 <tool ').content).toBe(' 3 < 4 <tool ')
  expect(read('').content).toBe('')
})

test.each([
  ['the name last', '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', { name: 'f', arguments: '{"a":1}' }],
  ['no arguments', '<tool_call>{"name": "f"}</tool_call>', { name: 'f', arguments: '{}' }],
  ['arguments that hold the word', call('f', '{"arguments": {"b": 2}}'), { name: 'f', arguments: '{"arguments": {"b": 2}}' }],
  ['no closing tag', '<tool_call>{"name": "f", "arguments": {"a": 1}}', { name: 'f', arguments: '{"a": 1}' }],
])('a call with %s is read', (_, text, wanted) => {
  expect(read(text).calls).toEqual([wanted])
})

describe('what is no call stays text and is told', () => {
  test.each([
    ['no JSON', '<tool_call>{"name": "f", </tool_call>', /no JSON/],
    ['cut off', '<tool_call>{"name": "f", "argu', /no JSON/],
    ['a list', '<tool_call>[1]</tool_call>', /no object/],
    ['without a name', '<tool_call>{"arguments": {}}</tool_call>', /no name/],
    ['with arguments of text', '<tool_call>{"name": "f", "arguments": "a"}</tool_call>', /arguments/],
  ])('%s', (_, text, problem) => {
    const answer = read(`before ${text}`)
    expect(answer).toMatchObject({ content: `before ${text}`, calls: [] })
    expect(answer.malformed).toEqual([expect.stringMatching(problem)])
  })

  test('and the calls beside it are read', () => {
    expect(read(`<tool_call>x</tool_call>${call('now', '{}')}`).calls).toHaveLength(1)
  })
})

test('however the text is cut into pieces, the answer is the same and nothing of a tag is let through', () => {
  const text = `a < b <tool ${call('f', '{"a": "<"}')} then ${call('g', '{}')}<tool_call>bad</tool_call> end <tool_ca`
  const whole = read(text)
  const random = seeded(3)
  for (let round = 0; round < 200; round++) {
    const pieces: string[] = []
    for (let at = 0; at < text.length; at += pieces.at(-1)!.length) pieces.push(text.slice(at, at + 1 + random(8)))
    expect(read(...pieces)).toEqual(whole)
  }
})
