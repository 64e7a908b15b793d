import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'
import { traces, type SpanSpec } from '../test/spans.ts'

const json = JSON.stringify
const runOf = (kind: string, prompt: object, completion: object, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: kind,
  at: 10,
  attributes: {
    'langsmith.span.kind': kind,
    'gen_ai.operation.name': 'chat',
    'gen_ai.prompt': json(prompt),
    'gen_ai.completion': json(completion),
  },
  ...rest,
})
const question = { role: 'user', content: 'Rome?' }
const answer = { role: 'assistant', content: '18.' }
const body = { id: 'r1', model: 'm', choices: [{ finish_reason: 'stop', message: answer, token_ids: [7, 8] }], prompt_token_ids: [1] }

describe('langsmith', () => {
  test('the raw body brings id, model and token ids', () => {
    const [call] = read(run(runOf('llm', { messages: [question] }, body))).calls
    expect(call).toMatchObject({ response_id: 'r1', model: 'm', finish: 'stop', tokens: { prompt: [1], response: [7, 8] }, flags: [] })
  })

  test('a message list that was serialised late is cut before its own answer', () => {
    const [call] = read(run(runOf('llm', { messages: [question, answer] }, body))).calls
    expect(call!.prompt).toHaveLength(1)
    expect(call!.flags).toEqual(['promptContainedOutput'])
  })

  describe('parallel tool calls of a streamed answer, which the wrapper for JavaScript runs together', () => {
    const tools = ['get', 'get_weather', 'get_time'].map((name) => ({ type: 'function', function: { name } }))
    const streamed = (name: string, args: string, offered: object[] = tools) => {
      const call = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: args } }
      const said = { role: 'assistant', content: 'I look.', tool_calls: [call] }
      return read(run(runOf('llm', { messages: [question], tools: offered }, { id: 'r1', choices: [{ index: 0, message: said }] })))
        .calls[0]!
    }

    test('are taken apart by the names of the tools that were offered', () => {
      const { completion, flags } = streamed('get_weatherget_time', '{"city":"} {\\"a\\""}{"zone":{}}')
      expect(completion!.parts).toEqual([
        { kind: 'text', text: 'I look.' },
        { kind: 'tool_call', id: 'call_1', name: 'get_weather', arguments: '{"city":"} {\\"a\\""}' },
        { kind: 'tool_call', name: 'get_time', arguments: '{"zone":{}}' },
      ])
      expect(flags).toEqual(['actionRecovered', 'callIdsMissing'])
    })

    test.each([
      ['getgetget', tools],
      ['get_weatherget_place', tools],
      ['get_weatherget_time', []],
    ])('are no answer where they cannot be told apart: %s of %j', (name, offered) => {
      const { completion, flags } = streamed(name, '{"a":1}{"b":2}', offered)
      expect(completion).toBeUndefined()
      expect(flags).toEqual(['outputMissing'])
    })

    test('one call stays as it is', () => {
      expect(streamed('get_weather', '{"a":{"b":1}}')).toMatchObject({
        completion: { parts: [{ kind: 'text' }, { id: 'call_1', name: 'get_weather', arguments: '{"a":{"b":1}}' }] },
        flags: [],
      })
    })
  })

  test('prompts and chains are no calls, though their operation is chat', () => {
    expect(read(run(runOf('prompt', { messages: [question] }, answer), runOf('chain', { messages: [question] }, answer))).calls).toEqual([])
  })

  test('an exception says more than the status OK', () => {
    const failing = runOf(
      'tool',
      { input: '{"city":"Rome"}' },
      { output: null },
      { status: 1, events: [['exception', { 'exception.type': 'Error' }]] },
    )
    expect(read(run(failing)).tools[0]).toMatchObject({
      arguments: '{"city":"Rome"}',
      verdict: { status: 'error', evidence: 'exception event' },
    })
  })

  test('the root of a trace is the agent', () => {
    const root = runOf('chain', {}, {}, { id: 'a', name: 'my_agent', for: 100 })
    expect(read(traces('t', [root, runOf('llm', { messages: [question] }, body, { parent: 'a' })])).calls[0]!.agent).toBe('my_agent')
  })
})
