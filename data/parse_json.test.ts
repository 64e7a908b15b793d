import { expect, test } from 'vitest'

import { parseJson } from './parse_json.ts'

test.each([
  ['{"n": 1764000000123456789}', { n: '1764000000123456789' }],
  ['[-9007199254740993, 1]', ['-9007199254740993', 1]],
  ['{"n":1234567890123456.5,"m":1234567890123456e1}', { n: 1234567890123456.5, m: 12345678901234560 }],
  ['{"a \\"1: 1234567890123456789":"b\\\\","n":1234567890123456789}', { 'a "1: 1234567890123456789': 'b\\', n: '1234567890123456789' }],
  ['{"prompt": "add :1234567890123456789"}', { prompt: 'add :1234567890123456789' }],
])('no digit of a long integer is lost: %s', (text, document) => {
  expect(parseJson(text)).toEqual(document)
})

test('what is not JSON is refused as malformed', () => {
  expect(() => parseJson('{"resourceSpans":')).toThrow('not JSON: ')
})

test.each(['{}', '['])('a document of too many %s is refused before it is parsed', (part) => {
  expect(() => parseJson(`[${`${part},`.repeat(1 << 22)}1]`)).toThrow('more than 4194304 objects and arrays')
})
