import { describe, expect, test } from 'vitest'

import { expectedShape } from '../data/expected_shape.ts'
import { read, run } from '../test/read.ts'

const json = JSON.stringify
const span = (operation: string, attributes: Record<string, string>) => ({
  id: operation,
  at: 10,
  status: 1 as const,
  attributes: { 'gen_ai.operation.name': operation, 'gen_ai.conversation.id': 's1', ...attributes },
})
const toolOf = (output: string) =>
  read(run(span('tool_call', { 'gen_ai.tool.name': 'look', 'gen_ai.tool.call_id': 'c1', 'gen_ai.output.messages': output }))).tools[0]!

describe('gemini-cli', () => {
  test('Gemini’s contents under the GenAI keys', () => {
    const contents = [
      { role: 'user', parts: [{ text: 'Rome?' }] },
      { role: 'model', parts: [{ thought: true, text: 'hm' }, { functionCall: { id: 'c1', name: 'look', args: {} } }] },
      { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'look', response: { output: '18' } } }] },
    ]
    const call = span('llm_call', {
      'gen_ai.input.messages': json(contents),
      'gen_ai.output.messages': json({ role: 'model', parts: [{ text: '18.' }] }),
    })
    expect(expectedShape(read(run(call))).llmCalls).toMatchObject([
      { promptRoles: 'user,assistant,tool', text: '18.', session: 's1', flags: [] },
    ])
  })

  test('what was cut off at 10,000 characters is flagged', () => {
    const call = span('llm_call', { 'gen_ai.input.messages': '[{"role":"user","parts":[{"te...[TRUNCATED: original length 12044]' })
    expect(read(run(call)).calls[0]!.flags).toContain('truncated')
  })

  test('a tool that failed softly says OK: its output does not', () => {
    const output = { status: 'error', response: { responseParts: [{ functionResponse: { response: { error: 'no such city' } } }] } }
    expect(toolOf(json(output))).toMatchObject({
      result: '{"error":"no such city"}',
      verdict: { status: 'error', evidence: 'result payload' },
    })
  })

  test('the status can be told from an output that was cut', () => {
    expect(toolOf('{"status":"error","request":{"callId"...[TRUNCATED: original length 12044]').verdict.status).toBe('error')
  })
})
