import { describe, expect, test } from 'vitest'

import { logs, read } from '../test/read.ts'

const record = (event: string, attributes: Record<string, unknown>, at = 0) => ({
  event,
  at,
  attributes: { 'conversation.id': 's1', model: 'gpt', ...attributes },
})
const result = (call_id: string, attributes: object, at = 0) =>
  record('codex.tool_result', { tool_name: 'shell', call_id, ...attributes }, at)

describe('codex', () => {
  test('a completed response is a call, with counts as text; other stream events are none', () => {
    const events = [
      record('codex.sse_event', { 'event.kind': 'response.created' }),
      record('codex.sse_event', { 'event.kind': 'response.completed', input_token_count: '5', output_token_count: '2' }, 10),
    ]
    expect(read(logs(...events)).calls).toMatchObject([
      { model: 'gpt', session: 's1', usage: { input: 5, output: 2 }, flags: ['contentMissing', 'outputMissing'] },
    ])
  })

  test('each tool result is a tool, and success is text or a boolean', () => {
    const { tools } = read(logs(result('c1', { success: 'false', output: 'no' }), result('c2', { success: true }, 5), result('c3', {}, 9)))
    expect(tools.map(({ call_id, verdict }) => `${call_id} ${verdict.status}`)).toEqual(['c1 error', 'c2 ok', 'c3 unknown'])
  })

  test('a decision about a tool is no tool', () => {
    expect(read(logs(record('codex.tool_decision', { tool_name: 'shell', call_id: 'c1', decision: 'denied' }))).tools).toEqual([])
  })
})
