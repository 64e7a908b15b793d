import { describe, expect, test } from 'vitest'

import { logs, read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const json = JSON.stringify
const span = (name: string, attributes: SpanSpec['attributes'] = {}, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: name,
  name: `claude_code.${name}`,
  at: 10,
  attributes,
  ...rest,
})
const record = (name: string, attributes: Record<string, unknown>, spanId?: string) => ({
  event: name,
  body: `claude_code.${name}`,
  at: 15,
  attributes,
  ...(spanId === undefined ? {} : { span: spanId }),
})

describe('claude-code', () => {
  test('a call is counts and ids; without raw bodies it has no text', () => {
    const call = span('llm_request', { model: 'sonnet', request_id: 'req_1', input_tokens: 5, output_tokens: 2, stop_reason: 'end_turn' })
    expect(read(run(call)).calls).toMatchObject([
      {
        model: 'sonnet',
        response_id: 'req_1',
        finish: 'end_turn',
        usage: { input: 5, output: 2 },
        flags: ['contentMissing', 'outputMissing'],
      },
    ])
  })

  test('raw bodies written in a call’s span are its text', () => {
    const request = { system: 'Be brief.', messages: [{ role: 'user', content: 'Rome?' }] }
    const response = { role: 'assistant', content: [{ type: 'text', text: '18.' }] }
    const bodies = [
      record('api_request_body', { body: json(request) }, 'llm_request'),
      record('api_response_body', { body: json(response) }, 'llm_request'),
    ]
    const [call] = read(run(span('llm_request', { model: 'sonnet' })), logs(...bodies)).calls
    expect(call!.prompt.map(({ role }) => role)).toEqual(['system', 'user'])
    expect(call!.flags).toEqual([])
  })

  test('the verdict on a tool is that of its execution', () => {
    const tool = span('tool', { tool_name: 'Bash', tool_use_id: 'c1' }, { for: 30 })
    const execution = span('tool.execution', { success: false }, { parent: 'tool', at: 12 })
    expect(read(run(tool, execution)).tools).toMatchObject([{ name: 'Bash', verdict: { status: 'error', evidence: 'tool.execution' } }])
  })

  test('a tool that was never executed is unknown', () => {
    const refused = span('tool.blocked_on_user', { decision: 'reject' }, { parent: 'tool', at: 12 })
    expect(read(run(span('tool', { tool_name: 'Bash' }, { for: 30 }), refused)).tools[0]!.verdict.status).toBe('unknown')
  })

  test('records within spans say what the spans say; without tracing they are all there is', () => {
    const result = { tool_name: 'Bash', tool_use_id: 'c1', success: 'false', error: 'exit 1' }
    expect(read(run(span('interaction', {}, { for: 90 })), logs(record('tool_result', result, 'interaction'))).tools).toEqual([])
    const alone = read(logs(record('api_request', { model: 'sonnet', request_id: 'req_1' }), record('tool_result', result)))
    expect(alone.calls).toMatchObject([{ response_id: 'req_1' }])
    expect(alone.tools).toMatchObject([{ call_id: 'c1', verdict: { status: 'error', evidence: 'success' } }])
  })
})
