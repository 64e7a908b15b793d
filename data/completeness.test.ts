import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'
import { chat, type SpanSpec } from '../test/spans.ts'
import { unfit } from './completeness.ts'

interface Turn {
  prompt?: object[]
  answer?: object[]
  at?: number
  attributes?: Record<string, string | number | boolean>
}

const user = (content: string) => ({ role: 'user', parts: [{ type: 'text', content }] })
const said = (content: string) => ({ role: 'assistant', parts: [{ type: 'text', content }] })
const asks = (id: string, args: object | string = {}) => ({
  role: 'assistant',
  parts: [{ type: 'tool_call', id, name: 'search', arguments: args }],
})
const came = (id: string | undefined, response: string) => ({ role: 'tool', parts: [{ type: 'tool_call_response', id, response }] })

const turn = (id: string, { prompt = [user('Go.')], answer = [said('Done.')], at = 10, attributes = {} }: Turn): SpanSpec =>
  chat(id, {
    at,
    attributes: { 'gen_ai.input.messages': JSON.stringify(prompt), 'gen_ai.output.messages': JSON.stringify(answer), ...attributes },
  })

const flagsOf = (...turns: Turn[]) =>
  read(run(...turns.map((t, i) => turn(`c${i}`, { at: 10 + i * 20, ...t })))).calls.map((call) => call.flags)
const reasonsOf = (...turns: Turn[]) =>
  read(run(...turns.map((t, i) => turn(`c${i}`, { at: 10 + i * 20, ...t })))).calls.map((call) => unfit(call)?.reason ?? null)

describe('a call is flagged', () => {
  test.each<[string, Turn, string[]]>([
    ['not at all when it is whole', {}, []],
    ['when its prompt is missing', { prompt: [] }, ['contentMissing']],
    ['when its answer is missing', { answer: [] }, ['outputMissing']],
    ['when its answer is empty', { answer: [said('')] }, ['outputMissing']],
    ['when a value was cut', { attributes: { 'gen_ai.tool.definitions': '[{"name": "sea' } }, ['truncated']],
    [
      'when a value was cut with a mark',
      { attributes: { 'gen_ai.input.messages': '[{"role":"us...[TRUNCATED: original length 9000]' } },
      ['contentMissing', 'truncated'],
    ],
    ['when a message was cut with a mark', { prompt: [user('One, two...[TRUNCATED: original length 9000]')] }, ['truncated']],
    ['when a placeholder stands for its prompt', { attributes: { 'gen_ai.input.messages': '<not specified>' } }, ['contentMissing']],
    ['when a placeholder stands for its answer', { attributes: { 'gen_ai.output.messages': 'N/A' } }, ['outputMissing']],
    ['when its text was hidden', { prompt: [user('__REDACTED__')] }, ['redacted']],
    ['when its answer was hidden', { answer: [said('[REDACTED]')] }, ['redacted']],
    ['when a tool result was hidden', { prompt: [user('Go.'), asks('a'), came('a', '[REDACTED]')] }, ['redacted']],
    ['when tool calls lost their ids', { prompt: [user('Go.'), asks(''), came('', 'x')] }, ['callIdsMissing']],
    ['when it writes its tool call in prose', { answer: [said('Thought: hm\nAction: search\nAction Input: {"q": 1}')] }, ['reactText']],
    ['when a tool answers a call that the prompt lacks', { prompt: [user('Go.'), came('a', 'x')] }, ['historyIncomplete']],
    ['when its tool calls were never answered', { prompt: [user('Go.'), asks('a'), user('And?')] }, ['historyIncomplete']],
    ['when its conversation was compacted', { attributes: { 'gen_ai.conversation.compacted': true } }, ['historyIncomplete']],
    ['when its history lives on the server', { attributes: { 'gen_ai.request.previous_response.id': 'resp-1' } }, ['historyIncomplete']],
  ])('%s', (_, call, flags) => {
    expect(flagsOf(call)).toEqual([flags])
  })

  test('when the prompt holds its own answer, which is cut off with all that follows', () => {
    const prompt = [user('Go.'), asks('a'), came('a', 'x'), said('Done.')]
    const { calls } = read(
      run(turn('c1', { at: 10, prompt, answer: [asks('a')] }), turn('c2', { at: 30, prompt, answer: [said('Done.')] })),
    )
    expect(calls.map((call) => call.prompt.map(({ role }) => role).join())).toEqual(['user', 'user,assistant,tool'])
    expect(calls.map((call) => call.flags)).toEqual([['promptContainedOutput'], ['promptContainedOutput']])
  })

  test('but not when a server uses the same call id in every turn, or the model repeats itself', () => {
    const first: Turn = { answer: [asks('call_0', { q: 1 })] }
    const second: Turn = { prompt: [user('Go.'), asks('call_0', { q: 1 }), came('call_0', 'x')], answer: [asks('call_0', { q: 1 })] }
    const third: Turn = { prompt: [user('Go.'), said('Done.'), user('Sure?')] }
    expect(flagsOf(first, second, third)).toEqual([[], [], []])
  })

  test('when it sends the prompt of a call that asked for tools again, and the model counts more tokens', () => {
    const asked: Turn = { answer: [asks('a')], attributes: { 'gen_ai.usage.input_tokens': 61, 'gen_ai.usage.output_tokens': 5 } }
    const more = { attributes: { 'gen_ai.usage.input_tokens': 142, 'gen_ai.usage.output_tokens': 5 } }
    const asMany = { attributes: { 'gen_ai.usage.input_tokens': 61, 'gen_ai.usage.output_tokens': 5 } }
    expect(flagsOf(asked, more)).toEqual([[], ['historyIncomplete']])
    expect(flagsOf(asked, asMany)).toEqual([[], []])
    expect(flagsOf(asked, { ...more, prompt: [user('Something else.')] })).toEqual([[], []])
  })
})

describe('a call is unfit to train on', () => {
  test.each<[string, Turn]>([
    ['truncated', { attributes: { 'gen_ai.tool.definitions': '[{"name": "sea' } }],
    ['contentMissing', { prompt: [] }],
    ['outputMissing', { answer: [] }],
    ['redacted', { prompt: [user('[REDACTED]')] }],
    ['historyIncomplete', { attributes: { 'gen_ai.request.previous_response.id': 'r' } }],
    ['promptContainedOutput', { prompt: [user('Go.'), said('Done.')] }],
  ])('for %s alone', (reason, call) => {
    expect([flagsOf(call), reasonsOf(call)]).toEqual([[[reason]], [reason]])
  })

  test('for what caused the rest, where more is wrong with it', () => {
    const cut: Turn = { attributes: { 'gen_ai.input.messages': '[{"role":"user","content":"W' } }
    expect(reasonsOf(cut, { prompt: [], answer: [] })).toEqual(['truncated', 'contentMissing'])
    expect(reasonsOf({}, { prompt: [] }, { prompt: [user('<REDACTED>'), came('a', 'x')] })).toEqual([null, 'contentMissing', 'redacted'])
    expect(reasonsOf({ answer: [said('Action: a\nAction Input: b')] })).toEqual([null])
  })

  test('when its messages came as shells, since content capture was off', () => {
    const shells = [user('Go.'), asks('a', ''), came('a', '')].slice(1)
    expect(reasonsOf({ prompt: shells, answer: [asks('b', '')] })).toEqual(['contentMissing'])
  })

  test('unless it carries the token ids of prompt and response', () => {
    const ids = { prompt_token_ids: '[1, 2]', response_token_ids: '[3]' }
    expect(reasonsOf({ prompt: [], attributes: ids })).toEqual([null])
    expect(reasonsOf({ prompt: [], attributes: { response_token_ids: '[3]' } })).toEqual(['contentMissing'])
  })

  test('when the SDK dropped attributes', () => {
    const document = run(turn('c', {})) as { resourceSpans: { scopeSpans: { spans: { droppedAttributesCount?: number }[] }[] }[] }
    document.resourceSpans[0]!.scopeSpans[0]!.spans[1]!.droppedAttributesCount = 3
    expect(read(document).calls.map((call) => unfit(call)?.reason)).toEqual(['droppedAttributes'])
  })
})
