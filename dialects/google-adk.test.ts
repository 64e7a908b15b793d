import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import { read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const json = JSON.stringify
const span = (name: string, attributes: SpanSpec['attributes'] = {}, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: name,
  name,
  scope: 'gcp.vertex.agent',
  at: 10,
  attributes,
  ...rest,
})
const asking = {
  content: { role: 'model', parts: [{ functionCall: { id: 'c1', name: 'look', args: { city: 'Rome' } } }] },
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2 },
}
const camel = { config: { systemInstruction: 'Be brief.' }, contents: [{ role: 'user', parts: [{ text: 'Rome?' }] }] }
const call = (request: object, response: object, rest: Partial<SpanSpec> = {}) =>
  span('call_llm', { 'gcp.vertex.agent.llm_request': json(request), 'gcp.vertex.agent.llm_response': json(response) }, rest)

describe('google-adk', () => {
  test('JavaScript writes camelCase', () => {
    const { llmCalls } = expectedShape(read(run(call(camel, asking))))
    expect(llmCalls).toMatchObject([{ promptRoles: 'system,user', toolCalls: ['look({"city":"Rome"})#c1'], usage: [5, 2], flags: [] }])
  })

  test('a tool that threw leaves an empty span: the next prompt tells of it', () => {
    const failed = { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'look', response: { error: 'no such city' } } }] }
    const next = { ...camel, contents: [...camel.contents, asking.content, failed] }
    const spans = [
      call(camel, asking),
      span('execute_tool look', {}, { at: 20 }),
      call(next, { content: { parts: [{ text: 'No.' }] } }, { id: 'c', at: 30 }),
    ]
    const { tools } = expectedShape(read(run(...spans)))
    expect(tools).toEqual([{ name: 'look', callId: 'c1', status: 'error', evidence: 'next prompt', inferred: false }])
  })

  test('version 2 writes arguments and results of tools the GenAI way', () => {
    const attributes = { 'gen_ai.tool.call.arguments': '{"city":"Rome"}', 'gen_ai.tool.call.result': '{"status":"error"}' }
    expect(read(run(span('execute_tool look', attributes))).tools).toMatchObject([
      { name: 'look', arguments: '{"city":"Rome"}', verdict: { status: 'error', evidence: 'result payload' } },
    ])
  })

  test('the summary of parallel calls is no tool', () => {
    expect(read(run(span('execute_tool (merged)', { 'gen_ai.tool.name': '(merged tools)' }))).tools).toEqual([])
  })

  test.each(['agent_run [weather]', 'invoke_agent weather'])('the agent of %s', (name) => {
    expect(read(run(span(name, {}, { for: 50 }), call(camel, asking, { parent: name, at: 12 }))).calls[0]!.agent).toBe('weather')
  })

  test('the GenAI span below a call is the same call', () => {
    const usage = { 'gen_ai.usage.input_tokens': 5, 'gen_ai.usage.output_tokens': 2 }
    const inner = span(
      'generate_content m',
      { 'gen_ai.operation.name': 'generate_content', ...usage },
      { parent: 'call_llm', at: 11, for: 2 },
    )
    expect(read(run(call(camel, asking), inner))).toMatchObject({ calls: [{}], duplicates: 1 })
  })
})
