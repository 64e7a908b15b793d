import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import { read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const json = JSON.stringify
const span = (operation: string, attributes: SpanSpec['attributes'] = {}, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: operation,
  at: 10,
  attributes: { 'ai.operationId': operation, ...attributes },
  ...rest,
})
const messages = json([{ role: 'user', content: [{ type: 'text', text: 'Rome?' }] }])

describe('vercel', () => {
  test('only the inner span is a call: the one around it holds sums, and is the agent', () => {
    const inner = span(
      'ai.streamText.doStream',
      { 'ai.prompt.messages': messages, 'ai.response.text': '18.' },
      { parent: 'ai.streamText', at: 11 },
    )
    const outer = span(
      'ai.streamText',
      { 'ai.telemetry.functionId': 'weather', 'ai.usage.inputTokens': 9, 'ai.response.text': '18.' },
      { for: 20 },
    )
    expect(expectedShape(read(run(outer, inner))).llmCalls).toMatchObject([
      { agent: 'weather', text: '18.', usage: [null, null], flags: [] },
    ])
  })

  test('version 3 wrote results, arguments as text and other names of usage', () => {
    const old = span('ai.generateText.doGenerate', {
      'ai.prompt.messages': messages,
      'ai.result.toolCalls': json([{ toolCallType: 'function', toolCallId: 'c1', toolName: 'look', args: '{"city":"Rome"}' }]),
      'ai.finishReason': 'tool-calls',
      'ai.usage.promptTokens': 5,
      'ai.usage.completionTokens': 2,
    })
    expect(expectedShape(read(run(old))).llmCalls).toMatchObject([
      { toolCalls: ['look({"city":"Rome"})#c1'], finish: 'tool-calls', usage: [5, 2] },
    ])
  })

  test('an object is an answer too', () => {
    const call = span('ai.generateObject.doGenerate', { 'ai.prompt.messages': messages, 'ai.response.object': '{"degrees":18}' })
    expect(expectedShape(read(run(call))).llmCalls).toMatchObject([{ text: '{"degrees":18}', flags: [] }])
  })

  test('a tool that says no more than its result went well', () => {
    const tool = span('ai.toolCall', {
      'ai.toolCall.name': 'look',
      'ai.toolCall.id': 'c1',
      'ai.toolCall.args': '{}',
      'ai.toolCall.result': '18',
    })
    expect(read(run(tool)).tools).toMatchObject([
      { name: 'look', call_id: 'c1', result: '18', verdict: { status: 'ok', evidence: 'has result' } },
    ])
  })

  test('embeddings are no calls', () => {
    expect(read(run(span('ai.embed'), span('ai.embed.doEmbed'))).calls).toEqual([])
  })
})
