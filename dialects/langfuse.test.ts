import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import { read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const observation = (type: string, attributes: Record<string, string> = {}, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: type,
  at: 10,
  attributes: {
    'langfuse.observation.type': type,
    ...Object.fromEntries(Object.entries(attributes).map(([key, value]) => [`langfuse.observation.${key}`, value])),
  },
  ...rest,
})
const question = { role: 'user', content: 'Rome?' }
const generation = (input: object, output: object | string) =>
  observation('generation', { input: JSON.stringify(input), output: typeof output === 'string' ? output : JSON.stringify(output) })
const callOf = (span: SpanSpec) => read(run(span)).calls[0]!

describe('langfuse', () => {
  test('usage is given as input and output, or as the provider does', () => {
    for (const usage of [
      { input: 5, output: 2, total: 7 },
      { prompt_tokens: 5, completion_tokens: 2 },
    ]) {
      expect(callOf(observation('generation', { usage_details: JSON.stringify(usage) })).usage).toMatchObject({ input: 5, output: 2 })
    }
  })

  test('a bare list of messages, an answer that is mere text', () => {
    const shape = expectedShape(read(run(generation([question], '18.')))).llmCalls[0]!
    expect(shape).toMatchObject({ promptRoles: 'user', text: '18.', flags: [] })
  })

  test('tools that LangChain put among the messages are definitions, not results', () => {
    const definition = { type: 'function', function: { name: 'f' } }
    const call = callOf(generation([question, { role: 'tool', content: definition }], { role: 'assistant', content: '18.' }))
    expect(call.prompt.map(({ role }) => role)).toEqual(['user'])
    expect(call.tools).toEqual([definition])
  })

  test('streamed tool calls that ran together are no completion', () => {
    const output = { tool_calls: [{ function: { name: 'f', arguments: '{"a":1}{"a":2}' } }] }
    expect(callOf(generation([question], output)).flags).toEqual(['outputMissing'])
  })

  test('a tool fails by its level, whatever its status says', () => {
    const tool = observation('tool', { level: 'ERROR', output: 'out of service' }, { status: 1 })
    expect(read(run(tool)).tools[0]!.verdict).toMatchObject({ status: 'error', evidence: 'langfuse level' })
  })

  test('calls below an evaluator are a judge’s', () => {
    const judge = { ...generation([question], '1'), parent: 'evaluator', at: 12 }
    expect(read(run(observation('evaluator', {}, { for: 20 }), judge)).calls[0]!.judged).toBe(true)
  })
})
