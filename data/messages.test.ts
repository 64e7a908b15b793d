// Every shape in which a conversation is written.

import { describe, expect, test } from 'vitest'

import type { Message } from './dialect.ts'
import { readMessages, withSystem } from './messages.ts'
import type { Value } from './span.ts'

/** `role: part, part`, each part in a few letters. */
function shown(messages: readonly Message[]): string[] {
  return messages.map(({ role, parts }) => {
    const texts = parts.map((part) => {
      if (part.kind === 'tool_call') return `${part.name}(${part.arguments})#${part.id}`
      if (part.kind === 'tool_result') return `#${part.id}=${part.text}${part.is_error ? '!' : ''}`
      if (part.kind === 'media') return `<${part.reference ?? part.mime}>`
      return part.kind === 'reasoning' ? `~${part.text}` : part.text
    })
    return `${role}: ${texts.join(', ')}`
  })
}

const CONVERSATION = ['system: Be brief.', 'user: Rome?', 'assistant: get({"q":1})#a', 'tool: #a=18', 'assistant: 18.']

const openai: Value = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'Rome?' }] },
  { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'get', arguments: '{"q":1}' } }] },
  { role: 'tool', tool_call_id: 'a', content: '18' },
  { role: 'assistant', content: '18.' },
]

describe('one conversation in the words of', () => {
  test.each<[string, Value]>([
    ['OpenAI chat completions', openai],
    [
      'OpenTelemetry GenAI',
      [
        { role: 'system', parts: [{ type: 'text', content: 'Be brief.' }] },
        { role: 'user', parts: [{ type: 'text', content: 'Rome?' }] },
        { role: 'assistant', parts: [{ type: 'tool_call', id: 'a', name: 'get', arguments: { q: 1 } }] },
        { role: 'user', parts: [{ type: 'tool_call_response', id: 'a', result: '18' }] },
        { role: 'assistant', parts: [{ type: 'text', content: '18.' }], finish_reason: 'stop' },
      ],
    ],
    [
      'OpenAI Responses',
      [
        { role: 'system', content: 'Be brief.' },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Rome?' }] },
        { type: 'function_call', id: 'fc_1', call_id: 'a', name: 'get', arguments: '{"q":1}' },
        { type: 'function_call_output', call_id: 'a', output: '18' },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: '18.' }] },
      ],
    ],
    [
      'Strands for JavaScript, whose answers have types where Bedrock has keys',
      [
        { role: 'system', content: '[{"text":"Be brief."}]' },
        { role: 'user', content: '[{"text":"Rome?"}]' },
        { role: 'assistant', content: '[{"type":"toolUse","name":"get","toolUseId":"a","input":{"q":1}}]' },
        { role: 'user', content: '[{"type":"toolResult","toolUseId":"a","status":"success","content":[{"text":"18"}]}]' },
        { role: 'assistant', content: '[{"type":"text","text":"18."}]' },
      ],
    ],
    [
      'the OpenAI Agents SDK for JavaScript',
      [
        { role: 'system', content: 'Be brief.' },
        { type: 'message', role: 'user', content: 'Rome?' },
        { type: 'function_call', id: 'fc_1', callId: 'a', name: 'get', arguments: '{"q":1}' },
        { type: 'function_call_result', callId: 'a', name: 'get', output: { type: 'text', text: '18' } },
        { type: 'message', role: 'assistant', content: '18.' },
      ],
    ],
    [
      'Anthropic',
      [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Rome?' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'get', input: { q: 1 } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: '18' }] }] },
        { role: 'assistant', content: [{ type: 'text', text: '18.' }] },
      ],
    ],
    [
      'Bedrock and Strands, with the content as JSON text',
      [
        { role: 'system', content: '[{"text": "Be brief."}]' },
        { role: 'user', content: '[{"text": "Rome?"}]' },
        { role: 'assistant', content: '[{"toolUse": {"toolUseId": "a", "name": "get", "input": {"q": 1}}}]' },
        { role: 'user', content: '[{"toolResult": {"toolUseId": "a", "status": "success", "content": [{"text": "18"}]}}]' },
        { role: 'assistant', content: '[{"text": "18."}]' },
      ],
    ],
    [
      'LangChain for Python',
      [
        [
          {
            lc: 1,
            type: 'constructor',
            id: ['langchain', 'schema', 'messages', 'SystemMessage'],
            kwargs: { content: 'Be brief.', type: 'system' },
          },
          { type: 'human', data: { content: 'Rome?', type: 'human' } },
          { type: 'ai', content: '', tool_calls: [{ name: 'get', args: { q: 1 }, id: 'a', type: 'tool_call' }] },
          { type: 'tool', data: { content: '18', type: 'tool', tool_call_id: 'a' } },
          { lc: 1, type: 'constructor', id: ['langchain', 'schema', 'messages', 'AIMessageChunk'], kwargs: { content: '18.' } },
        ],
      ],
    ],
    [
      'OpenInference, unflattened',
      [
        { message: { role: 'system', content: 'Be brief.' } },
        { message: { role: 'user', contents: [{ message_content: { type: 'text', text: 'Rome?' } }], content: 'Rome?' } },
        { message: { role: 'assistant', tool_calls: [{ tool_call: { id: 'a', function: { name: 'get', arguments: '{"q":1}' } } }] } },
        { message: { role: 'tool', tool_call_id: 'a', content: '18' } },
        { message: { role: 'assistant', content: '18.' } },
      ],
    ],
    [
      'the Vercel AI SDK',
      [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'Rome?' }] },
        { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'get', input: { q: 1 } }] },
        { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'get', output: { type: 'text', value: '18' } }] },
        { role: 'assistant', content: [{ type: 'text', text: '18.' }] },
      ],
    ],
  ])('%s', (_, value) => {
    expect(shown(readMessages(value))).toEqual(CONVERSATION)
  })
})

test.each<[string, Value, string[]]>([
  ['plain text is the user’s', 'Hello', ['user: Hello']],
  ['a tuple', ['human', 'Hello'], ['user: Hello']],
  [
    'several results in one message are a message each',
    {
      role: 'tool',
      parts: [
        { type: 'tool_call_response', id: 'a', response: 1 },
        { type: 'tool_call_response', id: 'b', response: { c: 2 } },
      ],
    },
    ['tool: #a=1', 'tool: #b={"c":2}'],
  ],
  [
    'results come before the text beside them',
    {
      role: 'user',
      content: [
        { type: 'text', text: 'And?' },
        { type: 'tool_result', tool_use_id: 'a', content: 'x' },
      ],
    },
    ['tool: #a=x', 'user: And?'],
  ],
  [
    'an error is marked',
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', is_error: true, content: 'no' }] },
    ['tool: #a=no!'],
  ],
  [
    'an error of the Vercel AI SDK',
    { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', output: { type: 'error-text', value: 'no' } }] },
    ['tool: #a=no!'],
  ],
  ['a failed ToolMessage', { type: 'tool', data: { content: 'no', tool_call_id: 'a', status: 'error' } }, ['tool: #a=no!']],
  [
    'reasoning, in three spellings',
    {
      role: 'assistant',
      reasoning_content: 'r',
      content: [
        { type: 'thinking', thinking: 't' },
        { type: 'reasoning', content: 'u' },
        { type: 'text', text: 'x' },
      ],
    },
    ['assistant: ~r, ~t, ~u, x'],
  ],
  [
    'images',
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'http://x/y.png' } },
        { type: 'blob', modality: 'image', mime_type: 'image/png' },
      ],
    },
    ['user: <http://x/y.png>, <image/png>'],
  ],
  [
    'a part of an unknown type is kept as it is',
    { role: 'user', parts: [{ type: 'poll', votes: 3 }] },
    ['user: {"type":"poll","votes":3}'],
  ],
  ['text that happens to be a JSON list', { role: 'user', content: '[1, 2]' }, ['user: [1, 2]']],
  ['a message without content', { role: 'user' }, []],
  ['a tool message that has only its id', { role: 'tool', id: 'a' }, ['tool: #a=']],
  [
    'tool calls beside parts, the same ones once',
    {
      role: 'assistant',
      parts: [{ type: 'tool_call', id: 'a', name: 'f', arguments: '1' }],
      tool_calls: [
        { id: 'a', function: { name: 'f', arguments: '1' } },
        { id: 'b', function: { name: 'g', arguments: '2' } },
      ],
    },
    ['assistant: f(1)#a, g(2)#b'],
  ],
  [
    'a function call of old',
    { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
    ['assistant: f({})#undefined'],
  ],
  ['nothing', null, []],
])('%s', (_, value, messages) => {
  expect(shown(readMessages(value))).toEqual(messages)
})

test.each<[string, Value]>([
  ['text', 'Be brief.'],
  ['parts', [{ type: 'text', content: 'Be brief.' }]],
  ['a message', { role: 'user', parts: [{ text: 'Be brief.' }] }],
])('system instructions as %s stand first, unless the messages have their own', (_, instructions) => {
  const user = readMessages('Rome?')
  expect(shown(withSystem(instructions, user))).toEqual(['system: Be brief.', 'user: Rome?'])
  expect(shown(withSystem(instructions, readMessages(openai)))).toEqual(CONVERSATION)
})
