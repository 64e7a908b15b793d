import { expect, test } from 'vitest'

import hermes from '../policy/tool_parsers/hermes.ts'
import type { Answer, Piece } from './api.ts'
import { drawnAnswer } from './drawn_answer.ts'

const call = (name: string) => `<tool_call>\n{"name": "${name}", "arguments": {"a": 1}}\n</tool_call>`

/** The text drawn letter by letter, until nothing more is wanted. */
function draw(
  text: string,
  { tools = true, onlyOne = false, finish = 'stop' as 'stop' | 'length' } = {},
): { answer: Answer; pieces: Piece[] } {
  const pieces: Piece[] = []
  const drawn = drawnAnswer(tools ? hermes.stream() : undefined, onlyOne, (piece) => pieces.push(piece))
  for (const [i, letter] of [...text].entries()) if (!drawn.enough.aborted) drawn.push({ id: i, text: letter, logprob: -1, top: [] })
  return { answer: drawn.end(finish), pieces }
}

test('text and the calls in it are told apart, and the pieces add up to the answer', () => {
  const { answer, pieces } = draw(`Let me see.\n${call('f')}\n${call('g')}`)
  expect(answer).toMatchObject({
    text: 'Let me see.',
    tool_calls: [
      { name: 'f', arguments: '{"a": 1}' },
      { name: 'g', arguments: '{"a": 1}' },
    ],
    finish_reason: 'tool_calls',
  })
  expect(pieces.map(({ text }) => text).join('')).toBe(answer.text)
  expect(pieces.flatMap(({ tool_calls }) => tool_calls.map(({ index, id }) => [index, id]))).toEqual(
    answer.tool_calls.map(({ id }, i) => [i, id]),
  )
  expect(pieces.flatMap(({ tokens }) => tokens)).toEqual(answer.tokens)
  expect(new Set(answer.tool_calls.map(({ id }) => id)).size).toBe(2)
})

test('a call that is none stays text, and so does all without tools', () => {
  expect(draw('<tool_call>{</tool_call>').answer).toMatchObject({ text: '<tool_call>{</tool_call>', tool_calls: [], finish_reason: 'stop' })
  expect(draw(call('f'), { tools: false }).answer).toMatchObject({ text: call('f'), tool_calls: [] })
  expect(draw(' 4 \n').answer.text).toBe(' 4 \n')
})

test('an answer that may call once ends with its first call', () => {
  const { answer } = draw(`${call('f')}${call('g')}`, { onlyOne: true })
  expect(answer.tool_calls).toMatchObject([{ name: 'f' }])
  expect(answer.tokens).toHaveLength(call('f').length)
})

test('an answer that was cut off says so, whatever it called', () => {
  expect(draw(`${call('f')} and`, { finish: 'length' }).answer).toMatchObject({ tool_calls: [{ name: 'f' }], finish_reason: 'length' })
})
