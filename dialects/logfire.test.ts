import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const json = JSON.stringify
const span = (type: string, attributes: SpanSpec['attributes'] = {}, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: type,
  scope: 'logfire.openai',
  at: 10,
  attributes: { 'logfire.span_type': type, ...attributes },
  ...rest,
})
const request = {
  'gen_ai.operation.name': 'chat',
  request_data: json({ model: 'm', stream: true, messages: [{ role: 'user', content: 'Rome?' }] }),
}
const streamed = { ...request, response_data: json({ combined_chunk_content: '18.', chunk_count: 3 }) }

describe('logfire', () => {
  test('a streamed answer is in a log line of its own, and is one call', () => {
    expect(read(run(span('span', request), span('log', streamed, { at: 30 })))).toMatchObject({
      calls: [{ completion: { parts: [{ kind: 'text', text: '18.' }] }, flags: [] }],
      duplicates: 0,
    })
  })

  test('a call that failed has no answer, and is still one', () => {
    expect(read(run(span('span', request, { status: 2 }))).calls[0]!.flags).toEqual(['outputMissing'])
  })

  test('pending copies of other instrumentations’ spans are no calls', () => {
    const pending = span(
      'pending_span',
      { 'openinference.span.kind': 'LLM', 'gen_ai.operation.name': 'chat' },
      { scope: 'openinference.instrumentation.openai' },
    )
    expect(read(run(pending)).calls).toEqual([])
  })

  test('a user’s span around a tool: its arguments are what its message shows', () => {
    const attributes = { 'logfire.msg_template': 'tool look {city=}', 'logfire.json_schema': '{"properties":{"city":{}}}', city: 'Rome' }
    expect(read(run(span('span', attributes, { scope: 'logfire' }))).tools).toMatchObject([{ name: 'look', arguments: '{"city":"Rome"}' }])
  })

  test('feedback stands under its own name, and is about the span above', () => {
    const feedback = span(
      'annotation',
      { 'logfire.feedback.name': 'taste', taste: 0.5 },
      { parent: 'log', scope: 'logfire.feedback', at: 50 },
    )
    const { rewards, calls } = read(run(span('log', streamed), feedback))
    expect(rewards).toMatchObject([{ dimensions: [{ name: 'taste', value: 0.5 }], source: 'human', target_node: calls[0]!.node }])
  })

  test('feedback without a number is reported, not guessed', () => {
    const feedback = span('annotation', { 'logfire.feedback.name': 'taste', taste: 'good' }, { scope: 'logfire.feedback' })
    expect(read(run(feedback)).problems).toMatchObject([{ reason: 'reward_refused' }])
  })
})
