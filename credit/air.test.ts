import { readFileSync } from 'node:fs'

import { describe, expect, test } from 'vitest'

import type { Verdict } from '../data/dialect.ts'
import { sorted } from '../data/tool_values.ts'
import { seeded } from '../test/random.ts'
import { classifier, toolKey, toolNumbers, type Rule } from './air.ts'

const classOf = (rules: Rule[]) => {
  const judge = classifier(rules)
  return (...args: Parameters<typeof judge>) => judge(...args).air_class
}
const classify = classOf([])
const tool = (verdict: Partial<Verdict>, result?: string, name = 'search') => ({
  name,
  ...(result === undefined ? {} : { result }),
  verdict: { status: 'ok' as const, evidence: '', ...verdict },
})

describe('fixtures/rl/12: the class of a tool span', () => {
  const { air_classification } = JSON.parse(readFileSync('test/fixtures/rl/12_shaping.json', 'utf8'))
  test.each<any>(air_classification)('$span is $cls', ({ span, cls }) => {
    const verdict = {
      status: span.status === 'ERROR' ? ('error' as const) : span.status === 'OK' ? ('ok' as const) : ('unknown' as const),
      error_type: span['error.type'] ?? span.exception,
      http_status: span['http.response.status_code'],
      exit_code: span['process.exit.code'],
    }
    expect(classify(tool(verdict, span.text))).toBe(cls)
  })
})

test.each([
  [{ status: 'error', error_type: 'requests.exceptions.ReadTimeout' }, 'env_error'],
  [{ status: 'error', error_type: 'openai.RateLimitError' }, 'env_error'],
  [{ status: 'error', error_type: 'ECONNREFUSED' }, 'env_error'],
  [{ status: 'error', error_type: '503' }, 'env_error'],
  [{ status: 'error', error_type: '422' }, 'policy_error'],
  [{ status: 'error', http_status: 403 }, 'env_error'],
  [{ status: 'error', grpc_status: 14 }, 'env_error'],
  [{ status: 'error', grpc_status: 3 }, 'policy_error'],
  [{ status: 'error', error_type: 'FileNotFoundError' }, 'policy_error'],
  [{ status: 'ok', exit_code: -9 }, 'policy_error'],
] as const)('%j is %s', (verdict, expected) => {
  expect(classify(tool(verdict))).toBe(expected)
})

test.each([
  ['error', 'Error: connection refused by 10.0.0.7:5432', 'env_error'],
  ['ok', 'How to handle a connection refused error', 'ok'],
  ['ok', '  []  ', 'empty'],
  ['ok', 'No results found.', 'empty'],
  ['ok', `${'x'.repeat(600)} no such table`, 'ok'],
  ['ok', 'bash: foo: command not found', 'policy_error'],
] as const)('status %s with the result %j is %s', (status, result, expected) => {
  expect(classify(tool({ status }, result))).toBe(expected)
})

test('a rule of one tool comes before the others and leaves other tools alone', () => {
  const own = classOf([{ class: 'ok', tools: ['search*'], texts: ['^\\s*$'] }])
  expect(own(tool({}, '', 'search_web'))).toBe('ok')
  expect(own(tool({}, '', 'sql'))).toBe('empty')
})

test('what it says names the rule', () => {
  const judge = classifier([{ class: 'empty', tools: ['search'], texts: ['nothing'] }])
  expect(judge(tool({}, 'nothing')).air_rule).toBe('rules[0]: empty by tools and texts')
  expect(judge(tool({ status: 'error', exit_code: 137 })).air_rule).toBe('env_error by exit_codes')
  expect(judge(tool({}, 'found')).air_rule).toBe('ok: no rule')
})

test('two calls of a tool are the same whatever the order and the spaces of their arguments', () => {
  expect(toolKey({ name: 'sql', arguments: '{"q": "x", "limit": {"b":1,"a":2}}' })).toBe(
    toolKey({ name: 'sql', arguments: '{"limit":{"a":2,"b":1},"q":"x"}' }),
  )
  expect(toolKey({ name: 'sql', arguments: '[1,2]' })).not.toBe(toolKey({ name: 'sql', arguments: '[2,1]' }))
  expect(toolKey({ name: 'bash', arguments: ' ls ' })).toBe(toolKey({ name: 'bash', arguments: 'ls' }))
})

test('calls of tools have one number where they have one key, and a key is what parsing makes of the arguments', () => {
  const random = seeded(5)
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!
  const texts = ['x', '', 'a b', '東京', '𝄞', '\ud834', '\\"', '\\u0041', '\\', '\n', '"', "'", '__proto__', '1', '\u2028', '\x7f']
  const blank = () => pick(['', '', ' ', '\n', '\u00a0'])
  const value = () => pick([`"${pick(texts)}"`, `"${pick(texts)}"`, '1', '-0', 'null', '[]', '{"b":1,"a":2}'])
  const member = () => `${blank()}"${pick(texts)}"${blank()}:${blank()}${value()}${blank()}`
  const written = () => pick([`${blank()}{${member()}}${blank()}`, `{${member()},${member()}}`, pick(texts), value()])
  const plainly = (json: string) => {
    try {
      return JSON.stringify(sorted(JSON.parse(json)))
    } catch {
      return json.trim()
    }
  }
  const numberOf = toolNumbers()
  const numbers = new Map<string, number>()
  for (let run = 0; run < 5_000; run++) {
    const tool = { name: pick(['f', 'g', undefined]), arguments: pick([written(), written(), undefined]) }
    const key = toolKey(tool)
    expect([tool, key]).toEqual([tool, `${tool.name ?? ''}(${plainly(tool.arguments ?? '')})`])
    const number = numberOf(tool)
    expect(numbers.get(key) ?? number).toBe(number)
    numbers.set(key, number)
  }
  expect(new Set(numbers.values()).size).toBe(numbers.size)
})
