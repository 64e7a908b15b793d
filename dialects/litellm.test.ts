import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import { read, run } from '../test/read.ts'

const request = (attributes: Record<string, string>) => ({ id: 'req', name: 'litellm_request', at: 10, for: 20, attributes })
const raw = (attributes: Record<string, string>) => ({ id: 'raw', name: 'raw_gen_ai_request', parent: 'req', at: 12, attributes })

describe('litellm', () => {
  test('the raw request fills in what the request lacks, from Python text', () => {
    const { calls, duplicates } = read(
      run(
        request({ 'gen_ai.operation.name': 'acompletion', 'gen_ai.request.model': 'm' }),
        raw({
          'llm.vllm.messages': "[{'role': 'user', 'content': \"What's up in Rome?\"}]",
          'llm.vllm.choices':
            "[{'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': None, 'tool_calls': None}, 'token_ids': [7]}]",
          'llm.vllm.prompt_token_ids': '[1, 2]',
        }),
      ),
    )
    expect(calls).toMatchObject([{ finish: 'stop', tokens: { prompt: [1, 2], response: [7] }, merged_span_ids: [] }])
    expect(calls[0]!.prompt[0]!.parts).toEqual([{ kind: 'text', text: "What's up in Rome?" }])
    expect(duplicates).toBe(0)
  })

  test('tool calls of the request have no ids; those of the raw answer are better', () => {
    const asked = request({
      'gen_ai.operation.name': 'acompletion',
      'gen_ai.completion.0.function_call.name': 'look',
      'gen_ai.completion.0.function_call.arguments': '{"city":"Rome"}',
      'gen_ai.completion.1.function_call.name': 'look',
      'gen_ai.completion.1.function_call.arguments': '{"city":"Oslo"}',
    })
    const call = (id: string, city: string) => `{'id': '${id}', 'function': {'name': 'look', 'arguments': '{"city":"${city}"}'}}`
    const choices = `[{'message': {'role': 'assistant', 'tool_calls': [${call('c1', 'Rome')}, ${call('c2', 'Oslo')}]}}]`
    const shown = (...spans: Parameters<typeof run>) => expectedShape(read(run(...spans))).llmCalls[0]!.toolCalls
    expect(shown(asked)).toEqual(['look({"city":"Rome"})#-', 'look({"city":"Oslo"})#-'])
    expect(shown(asked, raw({ 'llm.x.choices': choices }))).toEqual(['look({"city":"Rome"})#c1', 'look({"city":"Oslo"})#c2'])
  })

  test('response_token_ids with one list for each choice', () => {
    const { calls } = read(
      run(request({ 'llm.request.type': 'completion' }), raw({ 'llm.x.choices': '[{}]', 'llm.x.response_token_ids': '[[7, 8]]' })),
    )
    expect(calls[0]!.tokens!.response).toEqual([7, 8])
  })

  test.each([
    ['acompletion', 'chat'],
    ['responses', 'chat'],
    ['atext_completion', 'text_completion'],
  ])('%s is the operation %s', (written, operation) => {
    expect(read(run(request({ 'gen_ai.operation.name': written }))).calls[0]!.operation).toBe(operation)
  })

  test('embeddings are no call, nor is the proxy’s root', () => {
    const root = { id: 'proxy', name: 'Received Proxy Server Request', scope: 'litellm' }
    expect(read(run(root, request({ 'gen_ai.operation.name': 'aembedding' }))).calls).toEqual([])
  })

  test('older proxies write indexed messages', () => {
    const { calls } = read(
      run(request({ 'llm.request.type': 'acompletion', 'gen_ai.prompt.0.role': 'user', 'gen_ai.prompt.0.content': 'Rome?' })),
    )
    expect(calls[0]!.prompt).toHaveLength(1)
  })
})
