import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import { read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const span = (name: string, events: NonNullable<SpanSpec['events']> = [], rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: name,
  name: `${name}-6f0d1c5e`,
  scope: 'llamaindex.opentelemetry.tracer',
  at: 10,
  events,
  ...rest,
})
const callOf = (...events: NonNullable<SpanSpec['events']>) => expectedShape(read(run(span('OpenAI.achat', events)))).llmCalls[0]!

describe('llamaindex', () => {
  test('messages as one JSON text, roles as Python’s enum, the raw answer as Python prints it', () => {
    const messages = JSON.stringify([{ role: 'MessageRole.USER', blocks: [{ block_type: 'text', text: 'Rome?' }] }])
    const raw =
      "ChatCompletion(id='r1', model='m', choices=[Choice(finish_reason='stop', message=ChatCompletionMessage(content='18.', role='assistant'))])"
    const call = callOf(['LLMChatStartEvent', { messages }], ['LLMChatEndEvent', { 'response.raw': raw }])
    expect(call).toMatchObject({ promptRoles: 'user', responseId: 'r1', model: 'm', text: '18.', finish: 'stop', flags: [] })
  })

  test('tool calls as blocks', () => {
    const block = (key: string, value: string) => [`response.message.blocks.0.${key}`, value] as const
    const fields = [
      block('block_type', 'tool_call'),
      block('tool_call_id', 'c1'),
      block('tool_name', 'look'),
      block('tool_kwargs.city', 'Rome'),
    ]
    const answer = { 'response.message.role': 'assistant', ...Object.fromEntries(fields) }
    expect(callOf(['LLMChatEndEvent', answer]).toolCalls).toEqual(['look({"city":"Rome"})#c1'])
  })

  test('lists as JSON below flat fields, but text that looks like JSON stays as it was said', () => {
    const answer = {
      'response.message.blocks': JSON.stringify([{ block_type: 'text', text: '{"a": 1}' }]),
      'response.raw.choices': '[{"token_ids": [7]}]',
    }
    expect(callOf(['LLMChatEndEvent', answer])).toMatchObject({ text: '{"a": 1}', tokenIds: [0, 1] })
  })

  test('newer releases say which tool was called, as Python prints it', () => {
    const summary = "ToolCall(tool_name='look', tool_kwargs={'city': 'Rome'}, tool_id='c1')"
    const attributes = { 'llamaindex.step.input_event': 'ToolCall', 'llamaindex.step.input_summary': summary }
    expect(read(run(span('FunctionTool.acall', [], { attributes }))).tools).toMatchObject([
      { name: 'look', call_id: 'c1', arguments: '{"city":"Rome"}' },
    ])
  })

  test('a completion has a prompt and a text', () => {
    const call = callOf(['LLMCompletionStartEvent', { prompt: 'Rome is' }], ['LLMCompletionEndEvent', { 'response.text': 'big' }])
    expect(call).toMatchObject({ promptRoles: 'user', text: 'big' })
  })

  test('tools do not say which they are: they answer in the order in which they were asked for', () => {
    const asked = (i: number, city: string) => ({
      [`response.message.additional_kwargs.tool_calls.${i}.id`]: `c${i}`,
      [`response.message.additional_kwargs.tool_calls.${i}.function.name`]: 'look',
      [`response.message.additional_kwargs.tool_calls.${i}.function.arguments`]: `{"city":"${city}"}`,
    })
    const call = span('OpenAI.achat', [['LLMChatEndEvent', { ...asked(0, 'Rome'), ...asked(1, 'Oslo') }]])
    const tools = [span('FunctionTool.acall', [], { at: 20, status: 1 }), span('FunctionTool.call', [], { at: 30, status: 2 })]
    expect(read(run(call, ...tools)).tools).toMatchObject([
      { name: 'look', call_id: 'c0', arguments: '{"city":"Rome"}', verdict: { status: 'ok' } },
      { name: 'look', call_id: 'c1', arguments: '{"city":"Oslo"}', verdict: { status: 'error' } },
    ])
  })
})
