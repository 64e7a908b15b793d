import { describe, expect, test } from 'vitest'

import { parsePythonLiteral } from './python_literal.ts'
import { decode, numberOf, textOf, unflatten } from './values.ts'

describe('decode', () => {
  test.each([
    ['[1, {"a": null}]', [1, { a: null }]],
    ["{'a': [1, None, True], 'b': ('x', \"it's\")}", { a: [1, null, true], b: ['x', "it's"] }],
    ['plain text', 'plain text'],
    ['', ''],
    ['[REDACTED]', '[REDACTED]'],
    ['\n [1]', [1]],
    ['\u00a0\ufeff{"a": 1}\u2003', { a: 1 }],
    [Buffer.from('{"a": 1}'), { a: 1 }],
    [7, 7],
  ])('reads %j', (value, decoded) => {
    expect(decode(value)).toEqual({ value: decoded, truncated: false })
  })

  test.each([
    '[{"role": "user", "par',
    "{'a': 'b",
    '[1, 2 ...[TRUNCATED: original length 60000]',
    '[]...[truncated]',
    'text ...[TRUNCATED]\u00a0\n',
  ])('sees that %j was cut', (value) => {
    expect(decode(value)).toEqual({ value: undefined, truncated: true })
  })
})

describe('a Python literal', () => {
  test.each([
    ['-1.5e3', -1500],
    ['1_000', 1000],
    ["'\\x41\\u00e9\\n\\''", "Aé\n'"],
    ["b'bytes'", 'bytes'],
    ["r'\\d'", '\\d'],
    ['{1, 2}', [1, 2]],
    ['()', []],
    ['[1, 2,]', [1, 2]],
    ["Call(name='f', arguments='{\"a\": 1}', id=None)", { name: 'f', arguments: '{"a": 1}', id: null }],
    ['outer.Inner(1, key=[Nested(x=2)])', { key: [{ x: 2 }] }],
  ])('%s', (text, value) => {
    expect(parsePythonLiteral(text)).toEqual(value)
  })

  test.each(['', 'hello', "['a'", '[1 2]', "{'a' 1}", '<object at 0x7f>', "'a' 'b'", `${'['.repeat(1_000)}${']'.repeat(1_000)}`])(
    '%j is none',
    (text) => {
      expect(parsePythonLiteral(text)).toBeUndefined()
    },
  )
})

describe('text and numbers', () => {
  test.each(['', 'N/A', '<not specified>', '<not serializable>', 'None', null, undefined])('%j says nothing', (value) => {
    expect(textOf(value)).toBeUndefined()
  })

  test('an id may come as a number, a number as text', () => {
    expect([textOf(7), textOf(2n ** 60n), numberOf('61'), numberOf(3n)]).toEqual(['7', '1152921504606846976', 61, 3])
    expect([numberOf('many'), numberOf(''), numberOf(NaN), numberOf(true)]).toEqual([undefined, undefined, undefined, undefined])
  })
})

describe('flat keys', () => {
  test('become objects; indices may be sparse and in any order', () => {
    const attributes = { 'm.10.role': 'tool', 'm.1.role': 'user', 'm.1.calls.3.id': 'b', 'm.1.calls.0.id': 'a', 'm.x': 1, 'mm.0': 2 }
    expect(unflatten({ 'm.10.role': 'tool', 'm.2.role': 'user' }, 'm')).toEqual([{ role: 'user' }, { role: 'tool' }])
    expect(unflatten(attributes, 'm')).toEqual({ 1: { role: 'user', calls: [{ id: 'a' }, { id: 'b' }] }, 10: { role: 'tool' }, x: 1 })
    expect(unflatten(attributes, 'other')).toBeUndefined()
  })

  test('do no harm, whatever they are called', () => {
    const attributes = JSON.parse(
      `{"m.__proto__.polluted": 1, "m.0": "a", "m.0.b": "c", "m.${'x.'.repeat(10_000)}": 1, "m.999999999.a": 1}`,
    )
    expect(() => unflatten(attributes, 'm')).not.toThrow()
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
  })
})
