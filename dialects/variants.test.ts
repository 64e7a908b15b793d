// What the captures do not hold: other releases, other writers of the same families.

import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import type { ReadResult } from '../data/reading.ts'
import { anyValue, logs, read, run } from '../test/read.ts'
import { spanIdOf, traceIdOf, type SpanSpec } from '../test/spans.ts'

const call = (result: ReadResult) => expectedShape(result).llmCalls[0]
const ofSpan = (attributes: SpanSpec['attributes'], name = 'x') => read(run({ id: 'x', name, at: 10, attributes: attributes! }))

/** Span events, which test/spans.ts has no words for. */
function withEvents(attributes: Record<string, string>, ...events: [name: string, attributes: Record<string, unknown>][]): ReadResult {
  const document = run({ id: 'x', at: 10, attributes }) as { resourceSpans: { scopeSpans: { spans: object[] }[] }[] }
  const spans = document.resourceSpans[0]!.scopeSpans[0]!.spans
  const written = events.map(([name, values]) => ({
    name,
    timeUnixNano: '1',
    attributes: Object.entries(values).map(([key, value]) => ({ key, value: anyValue(value) })),
  }))
  spans[1] = { ...spans[1], events: written }
  return read(document)
}

const user = [{ role: 'user', parts: [{ type: 'text', content: 'Rome?' }] }]
const answer = [{ role: 'assistant', parts: [{ type: 'text', content: '18.' }], finish_reason: 'stop' }]
const simple = { promptRoles: 'user', text: '18.', finish: 'stop', flags: [] }

describe('genai', () => {
  const chat = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm' }

  test('messages in details events, one for each side (Strands)', () => {
    const result = withEvents(
      chat,
      ['gen_ai.client.inference.operation.details', { 'gen_ai.input.messages': JSON.stringify(user) }],
      ['gen_ai.client.inference.operation.details', { 'gen_ai.system_instructions': 'Be brief.' }],
      ['gen_ai.client.inference.operation.details', { 'gen_ai.output.messages': JSON.stringify(answer) }],
    )
    expect(call(result)).toMatchObject({ ...simple, promptRoles: 'system,user' })
  })

  test('prompt and completion in content events (1.27)', () => {
    const result = withEvents(
      { ...chat, 'gen_ai.response.finish_reasons': '["stop"]' },
      ['gen_ai.content.prompt', { 'gen_ai.prompt': '[{"role": "user", "content": "Rome?"}]' }],
      ['gen_ai.content.completion', { 'gen_ai.completion': '[{"role": "assistant", "content": "18."}]' }],
    )
    expect(call(result)).toMatchObject(simple)
  })

  test('events in one attribute (Pydantic AI, first version)', () => {
    const events = [
      { 'event.name': 'gen_ai.user.message', content: 'Rome?', role: 'user' },
      { 'event.name': 'gen_ai.choice', index: 0, message: { role: 'assistant', content: '18.' }, finish_reason: 'stop' },
    ]
    expect(call(ofSpan({ ...chat, events: JSON.stringify(events) }))).toMatchObject(simple)
  })

  test('the whole call in one log record, structured', () => {
    const attributes = {
      'gen_ai.input.messages': user,
      'gen_ai.output.messages': answer,
      'gen_ai.response.id': 'r',
      'gen_ai.usage.input_tokens': 7,
    }
    const result = read(
      run({ id: 'x', at: 10, attributes: chat }),
      logs({ event: 'gen_ai.client.inference.operation.details', span: 'x', at: 11, attributes }),
    )
    expect(call(result)).toMatchObject({ ...simple, responseId: 'r', usage: [7, null], model: 'm' })
  })

  test('a log record outside of any span is the call itself, unless it tells of something else', () => {
    const event = 'gen_ai.client.inference.operation.details'
    const attributes = { 'gen_ai.request.model': 'm', 'gen_ai.input.messages': user, 'gen_ai.output.messages': answer }
    expect(call(read(logs({ event, attributes })))).toMatchObject({ ...simple, model: 'm' })
    expect(read(logs({ event, attributes: { ...attributes, 'gen_ai.operation.name': 'embeddings' } })).calls).toEqual([])
  })

  test('the first of several answers that were asked for', () => {
    const two = [answer[0], { ...answer[0], parts: [{ type: 'text', content: '19.' }] }]
    const messages = { 'gen_ai.input.messages': JSON.stringify(user), 'gen_ai.output.messages': JSON.stringify(two) }
    expect(call(ofSpan({ ...chat, ...messages, 'gen_ai.request.choice.count': 2 }))).toMatchObject(simple)
  })

  test.each([
    ['acompletion', 'chat'],
    ['text_completion', 'text_completion'],
    ['generate_content', 'generate_content'],
  ])('operation %s is a %s call', (operation, read) => {
    expect(ofSpan({ 'gen_ai.operation.name': operation }).calls).toMatchObject([{ operation: read }])
  })

  test.each(['embeddings', 'invoke_workflow', 'agent_step', 'plan', 'retrieval', 'unknown'])(
    'operation %s is no call, though it has messages',
    (operation) => {
      const result = ofSpan({ 'gen_ai.operation.name': operation, 'gen_ai.input.messages': JSON.stringify(user) })
      expect([result.calls, result.tools]).toEqual([[], []])
    },
  )

  test('a call whose operation was dropped is known by its response id', () => {
    expect(ofSpan({ 'gen_ai.response.id': 'r', 'gen_ai.response.model': 'm' }).calls).toMatchObject([{ model: 'm' }])
  })

  test('a tool and an agent are known by the names of their spans', () => {
    expect(ofSpan({ 'gen_ai.tool.call.id': 'a' }, 'execute_tool search').tools).toMatchObject([{ name: 'search', call_id: 'a' }])
    expect(ofSpan({ 'gen_ai.tool.name': 'search', tool_arguments: '{"q": 1}', tool_response: 'x' }, 'running tool').tools).toMatchObject([
      { name: 'search', arguments: '{"q": 1}', result: 'x' },
    ])
    expect(ofSpan({ agent_name: 'me' }, 'agent run').agents).toMatchObject([{ name: 'me' }])
    expect(ofSpan({}, 'invoke_agent my agent').agents).toMatchObject([{ name: 'my agent' }])
  })

  test.each([
    [{ 'server.address': 'llm.example', 'server.port': 8000 }, 'llm.example:8000'],
    [{ 'server.address': 'http://127.0.0.1:18080/v1/' }, '127.0.0.1:18080'],
    [{ 'gen_ai.openai.api_base': 'https://llm.example/v1' }, 'llm.example'],
    [{ 'server.address': 'llm.example' }, 'llm.example'],
  ])('the endpoint of %j', (attributes, endpoint) => {
    expect(ofSpan({ ...chat, ...attributes }).calls).toMatchObject([{ endpoint }])
  })

  test.each(['["stop", "stop"]', 'stop,stop', 'stop'])('finish reasons as %s', (reasons) => {
    expect(call(ofSpan({ ...chat, 'gen_ai.response.finish_reasons': reasons }))).toMatchObject({ finish: 'stop' })
  })

  test('what the policy’s own engine says: token ids, logprobs and its version', () => {
    const tokens = { prompt_token_ids: '[1, 2]', response_token_ids: '[3, 4]', 'logprobs.content': '[{"logprob": -0.5}, {"logprob": -1}]' }
    expect(ofSpan({ ...chat, ...tokens, 'leyden.policy.version': 7 }).calls).toMatchObject([
      { tokens: { prompt: [1, 2], response: [3, 4], logprobs: [-0.5, -1] }, policy_version: 7 },
    ])
  })

  test('LangChain’s wrapped arguments and result (OpenLLMetry)', () => {
    const message = { lc: 1, kwargs: { status: 'error', content: 'Error: no', tool_call_id: 'a' } }
    const result = ofSpan({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'search',
      'gen_ai.tool.call.arguments': JSON.stringify({ input_str: "{'q': 1}", inputs: { q: 1 }, tags: [], metadata: {} }),
      'gen_ai.tool.call.result': JSON.stringify({ output: JSON.stringify(message) }),
    })
    expect(result.tools).toMatchObject([
      { call_id: 'a', arguments: '{"q":1}', result: 'Error: no', verdict: { status: 'error', evidence: 'result payload' } },
    ])
  })
})

describe('openllmetry', () => {
  test('a completion of the old kind, with gaps and disorder in its indices', () => {
    const attributes = {
      'llm.request.type': 'completion',
      'gen_ai.completion.0.content': '18.',
      'gen_ai.completion.0.finish_reason': 'stop',
      'gen_ai.prompt.12.role': 'user',
      'gen_ai.prompt.12.content': 'Rome?',
      'gen_ai.prompt.2.role': 'system',
      'gen_ai.prompt.2.content': 'Be brief.',
      'traceloop.association.properties.thread_id': 's',
    }
    expect(call(ofSpan(attributes))).toMatchObject({ ...simple, promptRoles: 'system,user', session: 's' })
    expect(ofSpan(attributes).calls).toMatchObject([{ operation: 'text_completion' }])
  })

  test.each(['workflow', 'task'])('a %s is neither call nor tool', (kind) => {
    const { calls, tools, agents } = ofSpan({ 'traceloop.span.kind': kind, 'traceloop.entity.name': 'x' })
    expect([calls, tools, agents]).toEqual([[], [], []])
  })
})

describe('openinference', () => {
  const llm = { 'openinference.span.kind': 'LLM' }
  const indexed = {
    'llm.input_messages.0.message.role': 'user',
    'llm.input_messages.0.message.content': 'Rome?',
    'llm.output_messages.0.message.role': 'assistant',
    'llm.output_messages.0.message.content': '18.',
    'llm.finish_reason': 'stop',
  }

  test('a node of a hand-made LangGraph is the agent of its calls; a node of a ready-made agent is not', () => {
    const agentOf = (ls_integration: string) => {
      const metadata = JSON.stringify({ ls_integration, langgraph_node: 'writer' })
      const document = run(
        { id: 'n', name: 'writer', at: 5, attributes: { 'openinference.span.kind': 'CHAIN', metadata } },
        { id: 'c', name: 'ChatOpenAI', parent: 'n', at: 10, attributes: { ...llm, ...indexed, metadata } },
      )
      return read(document).calls[0]?.agent
    }
    expect(agentOf('langgraph')).toBe('writer')
    expect(agentOf('langchain_create_agent')).toBeUndefined()
  })

  test('request and response model, where they are told apart', () => {
    const models = { 'llm.model_name': 'x', 'llm.request.model_name': 'asked', 'llm.response.model_name': 'answered' }
    expect(ofSpan({ ...llm, ...indexed, ...models }).calls).toMatchObject([{ model: 'answered', request_model: 'asked' }])
  })

  test('a kind in small letters, and one that is missing', () => {
    expect(call(ofSpan({ ...indexed, 'openinference.span.kind': 'llm' }))).toMatchObject(simple)
    expect(ofSpan({ ...indexed, 'openinference.span.kind': '' }).calls).toEqual([])
  })

  test('the raw request, where the indexed keys lost content or ids', () => {
    const lost = {
      ...indexed,
      'llm.input_messages.1.message.role': 'assistant',
      'llm.input_messages.1.message.tool_calls.0.tool_call.function.name': 'get',
    }
    const messages = [
      { role: 'user', content: 'Rome?' },
      { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'get', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 'a', content: '18' },
    ]
    expect(call(ofSpan({ ...llm, ...lost, 'input.value': JSON.stringify({ messages }) }))).toMatchObject({
      promptRoles: 'user,assistant,tool',
      flags: ['inputFromRaw'],
    })
  })

  test('only raw values', () => {
    const raw = {
      'input.value': JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Rome?' }] }),
      'output.value': JSON.stringify({
        id: 'r',
        model: 'm-7',
        choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: '18.' } }],
        usage: { prompt_tokens: 5, completion_tokens: 2 },
      }),
    }
    expect(call(ofSpan({ ...llm, ...raw }))).toMatchObject({ ...simple, responseId: 'r', model: 'm-7', usage: [5, 2] })
  })

  test('messages as an answer have ids, but not the response’s', () => {
    const output = JSON.stringify([{ id: 'msg_1', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: '18.' }] }])
    expect(call(ofSpan({ ...llm, ...indexed, 'output.value': output }))).toMatchObject({ ...simple, responseId: null })
  })

  test.each([
    ['annotations.0.annotation', {}, { span_id: spanIdOf('x') }],
    ['evaluations.0.evaluation', {}, { span_id: spanIdOf('x') }],
    ['trace.annotations.0.annotation', {}, { trace_id: traceIdOf('t') }],
    ['session.evaluations.0.evaluation', { 'session.id': 's' }, { session: 's' }],
  ])('%s is about its span, its trace or its session', (prefix, extra, target) => {
    const score = { [`${prefix}.name`]: 'good', [`${prefix}.score`]: 0.5, [`${prefix}.annotator_kind`]: 'HUMAN' }
    expect(ofSpan({ 'openinference.span.kind': 'CHAIN', ...extra, ...score }).rewards).toMatchObject([
      { dimensions: [{ name: 'good', value: 0.5 }], source: 'human', target },
    ])
  })
})

describe('agentops', () => {
  test('an embedding request is no call, a session no agent', () => {
    expect(ofSpan({ 'gen_ai.request.type': 'embedding' }).calls).toEqual([])
    expect(ofSpan({ 'agentops.span.kind': 'session' }).agents).toEqual([])
  })

  test('tool calls in child spans are the action of the call, once, in order', () => {
    const chat = { 'gen_ai.request.type': 'chat', 'gen_ai.completion.0.role': 'assistant' }
    const action = (id: string, at: number): SpanSpec => ({
      id,
      parent: 'x',
      at,
      name: 'tool_call.get',
      attributes: { 'agentops.span.kind': 'tool', 'tool.name': 'get', 'tool.call.id': id },
    })
    const result = read(run({ id: 'x', at: 10, for: 30, attributes: chat }, action('b', 30), action('a', 20)))
    expect(call(result)).toMatchObject({ toolCalls: ['get()#a', 'get()#b'] })
    expect(result.tools.map(({ inferred, verdict }) => [inferred, verdict.status])).toEqual([
      [true, 'unknown'],
      [true, 'unknown'],
    ])
  })
})

test('agent-lightning numbers its dimensions; the first is the primary one only if its number is 0', () => {
  const reward = (...numbers: number[]) =>
    ofSpan(Object.fromEntries(numbers.map((n) => [`agentlightning.reward.${n}.value`, n / 10])), 'agentlightning.annotation').rewards
  expect(reward(2, 0)).toMatchObject([
    {
      primary: 'primary',
      dimensions: [
        { name: 'primary', value: 0 },
        { name: 'reward_2', value: 0.2 },
      ],
    },
  ])
  expect(reward(1)[0]!.primary).toBeUndefined()
})
