import { expect, test } from 'vitest'

import { dialects } from '../dialects/index.ts'
import { seeded } from '../test/random.ts'
import { chat, traces } from '../test/spans.ts'
import { itemReader } from './item_reader.ts'
import { fromJson } from './otlp_json.ts'
import { readItems } from './reading.ts'
import { readItem, scan } from './scan.ts'
import { rawItem } from './span_batch.ts'

const random = seeded(3)
const pick = <T>(from: readonly T[]): T => from[random(from.length)]!

const WORDS = [
  'one',
  'Zürich',
  '東京',
  '\u{1d11e}',
  '"quoted"',
  '\n',
  '\\',
  '[1]',
  '{"a": 1}',
  '[REDACTED]',
  'Action Input: x',
  'ToolCall(a=1)',
]
const text = (): string => Array.from({ length: pick([0, 1, 3, 60, 200]) }, () => pick(WORDS)).join(' ')
/** Content that is itself written as JSON. */
const inJson = (): string => JSON.stringify(pick([[{ type: 'text', text: text() }], { text: text() }, [text()]]))
const content = (): unknown => pick([text, text, inJson, () => [{ type: 'text', text: text() }], () => ({ text: text() }), () => null])()

const PARTS: readonly (() => unknown)[] = [
  () => ({ type: 'text', content: text() }),
  () => ({ content: text(), type: 'text' }),
  () => ({ type: 'reasoning', content: text() }),
  () => ({ type: 'thinking', text: text() }),
  () => ({ type: 'tool_call', id: pick(['a', 'b']), name: 'f', arguments: { content: text(), n: 1.5 } }),
  () => ({ type: 'tool_call', name: 'f', arguments: text() }),
  () => ({ type: 'tool_call_response', id: pick(['a', 'b']), response: text() }),
  () => ({ type: 'tool_result', tool_use_id: 'a', content: content() }),
  () => ({ type: 'blob', mime_type: 'image/png', content: text() }),
  () => ({ toolUse: { toolUseId: 'a', name: 'f', input: { text: text() } } }),
  () => ({ thought: true, text: text() }),
  () => ({ something: { text: text() } }),
  text,
]
const MESSAGES: readonly (() => unknown)[] = [
  () => ({ role: pick(['user', 'assistant', 'system', 'tool', 'nobody']), parts: parts(), finish_reason: 'stop' }),
  () => ({ role: pick(['user', 'assistant', 'tool']), content: content(), tool_call_id: 'a', name: pick(['x', undefined]) }),
  () => ({ type: 'function_call_output', call_id: 'a', output: content() }),
  () => ({ message: { role: 'user', content: content() } }),
  () => ({ lc: 1, id: ['langchain', 'HumanMessage'], kwargs: { content: content() } }),
  () => ['user', text()],
  text,
]
const several = (of: readonly (() => unknown)[]): unknown[] => Array.from({ length: 1 + random(3) }, () => pick(of)())
const parts = () => several(PARTS)

/** Some are cut off by a length limit, some by a limit that says so. */
function written(messages: unknown): string {
  const json = JSON.stringify(messages)
  return pick([json, json, json, json.slice(0, -3), `${json.slice(0, -20)}...[TRUNCATED]`, json.replaceAll('"', "'")])
}

test('a call whose messages are read from their bytes is the call that is read from their text', () => {
  const read = itemReader(dialects)
  for (let i = 0; i < 150; i++) {
    const attributes = {
      'gen_ai.system_instructions': pick([text(), written(several(PARTS)), written({ role: 'system', parts: parts() })]),
      'gen_ai.input.messages': written(several(MESSAGES)),
      'gen_ai.output.messages': written(several(MESSAGES)),
    }
    const { batch } = scan('traces', fromJson('traces', traces('t', [chat('c', { attributes })])))
    const whole = readItems([readItem(batch, 0)], dialects)
    expect(readItems([read(rawItem(batch, 0))], dialects)).toEqual(whole)
  }
})
