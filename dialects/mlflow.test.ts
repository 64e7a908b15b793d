import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'
import type { SpanSpec } from '../test/spans.ts'

const json = JSON.stringify
const span = (type: string, attributes: Record<string, string>, rest: Partial<SpanSpec> = {}): SpanSpec => ({
  id: type,
  at: 10,
  attributes: { 'mlflow.spanType': json(type), ...attributes },
  ...rest,
})

describe('mlflow', () => {
  test('an Anthropic request and answer, the system apart', () => {
    const request = { model: 'm', system: 'Be brief.', messages: [{ role: 'user', content: 'Rome?' }] }
    const response = { id: 'msg_1', model: 'm-1', role: 'assistant', content: [{ type: 'text', text: '18.' }], stop_reason: 'end_turn' }
    const [call] = read(run(span('LLM', { 'mlflow.spanInputs': json(request), 'mlflow.spanOutputs': json(response) }))).calls
    expect(call).toMatchObject({ model: 'm-1', response_id: 'msg_1', finish: 'end_turn', flags: [] })
    expect(call!.prompt.map(({ role }) => role)).toEqual(['system', 'user'])
  })

  test('strings are quoted, and a quote without an end was cut', () => {
    const [call] = read(run(span('LLM', { 'mlflow.spanInputs': '"Ro', 'mlflow.spanOutputs': json('18.') }))).calls
    expect(call!.completion!.parts).toEqual([{ kind: 'text', text: '18.' }])
    expect(call!.flags).toEqual(['contentMissing', 'truncated'])
  })

  test('the session is without its quotes', () => {
    expect(read(run(span('CHAT_MODEL', { 'mlflow.trace.session': '"s-1"' }))).calls[0]!.session).toBe('s-1')
  })

  test('a tool is called as its function, its span may be numbered', () => {
    const tool = span(
      'TOOL',
      { 'mlflow.spanFunctionName': '"look"', 'mlflow.spanInputs': '{"a":1}', 'mlflow.spanOutputs': '"found"' },
      { name: 'look_2' },
    )
    expect(read(run(tool)).tools[0]).toMatchObject({ name: 'look', arguments: '{"a":1}', result: 'found', verdict: { status: 'ok' } })
  })
})
