// Arguments and results of tools. Most of them need not be parsed: what is answered without that is what parsing answers.

import { expect, test } from 'vitest'

import type { Value } from './span.ts'
import { payloadsOf, unwrapArguments, unwrapResult } from './tool_values.ts'
import { decode, jsonOf, listOf, recordOf } from './values.ts'

test.each([
  ['{"args": [], "kwargs": {"city": "Rome"}}', '{"city":"Rome"}'],
  ['{"args": ["Rome"], "kwargs": {}}', '["Rome"]'],
  [`{'args': ['Rome'], 'kwargs': {}}`, '["Rome"]'],
  ['{"\\u0061rgs": ["Rome"], "kw\\u0061rgs": {}}', '["Rome"]'],
  ['{"input_str": "Rome", "inputs": {"city": "Rome"}}', '{"city":"Rome"}'],
  [`{"input\\u005fstr": "Rome"}`, 'Rome'],
  [`{'\\input_\\str': 'Rome'}`, 'Rome'],
  ['{"city": "Rome"}', '{"city": "Rome"}'],
  ['Rome', 'Rome'],
])('the arguments of %j are %j', (written, read) => {
  expect(unwrapArguments(written)).toBe(read)
})

/** By its definition: everything is parsed. */
function plainly(value: Value): string | undefined {
  const record = recordOf(decode(value).value)
  if (!record) return jsonOf(value)
  if ('args' in record && 'kwargs' in record) {
    const kwargs = recordOf(record.kwargs) ?? {}
    return jsonOf(listOf(record.args).length === 0 ? kwargs : Object.keys(kwargs).length === 0 ? record.args : record)
  }
  if ('input_str' in record) return jsonOf(record.inputs) ?? jsonOf(record.input_str)
  return jsonOf(value)
}

test('arguments of any making are those that parsing them gives', () => {
  let seed = 11
  const random = (below: number) => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % below
  const pick = <T>(from: readonly T[]) => from[random(from.length)]!
  const keys = ['args', 'kwargs', 'input_str', 'inputs', 'city', '\\x6bwargs', 'kw\\u0061rgs', 'a\\rgs', 'k\\wargs', 'input\\_str', '\\n']
  const values = ['[]', '{}', '[1]', '{"a": 1}', '"x"', 'null', 'None', "'y'", '"\\""', '{"kwargs": {}, "args": []}']
  for (let run = 0; run < 5_000; run++) {
    const quote = pick(['"', "'"])
    const members = Array.from({ length: random(4) }, () => `${quote}${pick(keys)}${quote}${pick([':', ' : '])}${pick(values)}`)
    const written = `${pick(['', ' ', '\u00a0', 'f'])}{${members.join(',')}}${pick(['', '\n', ']', ' ...[TRUNCATED]'])}`
    expect([written, unwrapArguments(written)]).toEqual([written, plainly(written)])
  }
})

test('of results one after the other each has its own objects, asked for once or again', () => {
  const wrapped = '{"output": {"kwargs": {"content": "found", "tool_call_id": "call_1"}}}'
  const payloads = JSON.stringify(payloadsOf(wrapped))
  expect(unwrapResult(wrapped)).toEqual({ text: 'found', call_id: 'call_1' })
  for (const other of ['', 'plain', '{"a": 1}', '{"output": "{\\"a\\": 2}"}']) {
    expect(payloadsOf(other)).toEqual(payloadsOf(Buffer.from(other)))
    expect(JSON.stringify(payloadsOf(wrapped))).toBe(payloads)
  }
})
