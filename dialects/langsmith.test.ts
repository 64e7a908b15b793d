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
