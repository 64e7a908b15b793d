import { expect, test } from 'vitest'

import { traces } from '../test/spans.ts'
import { fromJson } from './otlp_json.ts'
import { isPlainAscii, plain } from './plain_text.ts'
import { attribute, scan } from './scan.ts'
import { slotOf } from './span_batch.ts'

const batchOf = (value: string | number | boolean) =>
  scan('traces', fromJson('traces', traces('t', [{ id: 'a', attributes: { [KEY]: value } }]))).batch

const KEY = 'gen_ai.response.id'

test.each(['chatcmpl-1', '', 'x'.repeat(300)])('text is found where it stands: %s', (value) => {
  const batch = batchOf(value)
  expect(isPlainAscii(batch.body, slotOf(batch, 0, KEY))).toBe(true)
  expect(batch.body.toString('latin1', plain.start, plain.end)).toBe(attribute(batch, 0, KEY))
})

test.each([['Zürich'], [5], [true]])('what is no ASCII text has to be decoded: %j', (value: string | number | boolean) => {
  const batch = batchOf(value)
  expect(isPlainAscii(batch.body, slotOf(batch, 0, KEY))).toBe(false)
})
