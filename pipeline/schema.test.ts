import { describe, expect, test } from 'vitest'

import {
  didYouMean,
  duration,
  flag,
  formatDuration,
  group,
  list,
  map,
  number,
  oneOf,
  readConfig,
  secret,
  text,
  type Fields,
  type Problem,
} from './schema.ts'

function read(fields: Fields, input: unknown) {
  const problems: Problem[] = []
  const config = readConfig(fields, input, [], problems)
  return { config, problems: problems.map(({ path, message }) => `${path.join('::')}: ${message}`) }
}

describe('a duration', () => {
  test.each([
    ['0', 0, '0s'],
    ['250ms', 250, '250ms'],
    ['1.5s', 1_500, '1.5s'],
    ['90s', 90_000, '1m30s'],
    ['5m', 300_000, '5m0s'],
    ['1h30m', 5_400_000, '1h30m0s'],
    ['2us', 0.002, '2µs'],
    ['.5h', 1_800_000, '30m0s'],
  ])('%s is %d ms and prints as %s', (written, ms, printed) => {
    expect(read({ wait: duration('') }, { wait: written }).config.wait).toBeCloseTo(ms, 9)
    expect(formatDuration(ms)).toBe(printed)
  })

  test.each(['3d', '5 s', '-1s', 's', '1s2', true])('cannot be %s', (written) => {
    expect(read({ wait: duration('') }, { wait: written }).problems).toEqual([expect.stringContaining('must be a duration')])
  })

  test('without a unit is not guessed at', () => {
    expect(read({ wait: duration('') }, { wait: 30 }).problems).toEqual([
      'wait: must be a duration such as 200ms, 5s or 1h30m: give it a unit, e.g. 30s (got 30)',
    ])
  })

  test('that is too short is told the shortest', () => {
    expect(read({ wait: duration('', { min: 1_000 }) }, { wait: '0s' }).problems).toEqual([expect.stringContaining('at least 1s')])
  })
})

describe('options', () => {
  test('are not converted from one type to another', () => {
    const fields = { n: number(''), on: flag(''), name: text(''), mode: oneOf(['a', 'b'], '') }
    expect(read(fields, { n: '1', on: 1, name: 12, mode: 'c' }).problems).toEqual([
      'n: must be a number (got "1")',
      'on: must be true or false (got 1)',
      'name: must be a string: put it in quotes (got 12)',
      'mode: must be one of a, b (got "c")',
    ])
  })

  test('that hold numbers keep to their range', () => {
    const fields = { share: number('', { min: 0, max: 1 }), port: number('', { integer: true }), any: number('') }
    expect(read(fields, { share: 2, port: 1.5, any: Infinity }).problems).toEqual([
      'share: must be a number from 0 to 1 (got 2)',
      'port: must be an integer (got 1.5)',
      'any: must be a number (got Infinity)',
    ])
  })

  test('without a default are required', () => {
    expect(read({ include: list(text(''), '') }, null).problems).toEqual([': needs "include": a list, each item a string'])
  })

  test('that nobody knows are errors, also those that every object has', () => {
    expect(read({ endpoint: text('', { default: '' }) }, { endpont: 'x', toString: 1 }).problems).toEqual([
      'endpont: unknown option, did you mean "endpoint"?',
      'toString: unknown option (known: endpoint)',
    ])
  })

  test('in a list or a map are reported with their position', () => {
    const fields = { policies: list(group({ name: text('') }, ''), ''), ports: map(number(''), '') }
    expect(read(fields, { policies: [{ name: 'a' }, { nam: 'b' }], ports: { http: 'x' } }).problems).toEqual([
      'policies::1::nam: unknown option, did you mean "name"?',
      'policies::1: needs "name": a string',
      'ports::http: must be a number (got "x")',
    ])
  })
})

describe('a key without a value', () => {
  const tls = { verify: flag('', { default: true }) }

  test('switches a group on, with its defaults', () => {
    expect(read({ tls: group(tls, '', { default: null }) }, { tls: null }).config).toEqual({ tls: { verify: true } })
    expect(read({ tls: group(tls, '', { default: null }) }, {}).config).toEqual({ tls: null })
  })

  test('is the default of any other option', () => {
    expect(read({ name: text('', { default: 'x' }), path: text('', { default: null }) }, { name: null, path: null }).config).toEqual({
      name: 'x',
      path: null,
    })
  })
})

test('a secret is in no error, however deep it lies and whatever stands in its place', () => {
  const fields = { auth: group({ token: secret('') }, ''), headers: map(secret(''), ''), password: secret('') }
  const { problems } = read(fields, { auth: 'hunter2', headers: ['hunter2'], password: { inner: 'hunter2' } })
  expect(problems).toEqual([
    'auth: must be a map of options (got a hidden value)',
    'headers: must be a map, each value a string (got a hidden value)',
    'password: must be a string (got a hidden value)',
  ])
})

test('a hint is the nearest known word, and none where none is near', () => {
  expect(didYouMean('verbose', ['version', 'verbosity'])).toBe(', did you mean "verbosity"?')
  expect(didYouMean('gama', ['method', 'gamma'])).toBe(', did you mean "gamma"?')
  expect(didYouMean('frobnicate', ['verbosity', 'path'])).toBe(' (known: verbosity, path)')
})
