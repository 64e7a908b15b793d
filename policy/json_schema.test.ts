import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { seeded } from '../test/random.ts'
import { openGrammar, type Grammar, type State } from './grammar.ts'
import { schemaNode, type Schema } from './json_schema.ts'

const grammarOf = (schema: Schema, exact = true): Grammar => openGrammar(schemaNode(schema, exact))

function accepts({ start, move }: Grammar, text: string): boolean {
  let state: State | null = start
  for (const byte of Buffer.from(text)) state &&= move(state, byte)
  return state?.complete ?? false
}

const ENDS = [...Buffer.from('"]}')]

/** Some text of the grammar: at each place any byte that may follow, those that end something more often, so that it ends. */
function written({ start, move }: Grammar, random: (n: number) => number): string {
  const bytes: number[] = []
  for (let state = start; ;) {
    const possible = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => move(state, byte))
    if (state.complete && (possible.length === 0 || random(3) === 0)) return Buffer.from(bytes).toString()
    expect(possible.length).toBeGreaterThan(0)
    const ends = possible.filter((byte) => ENDS.includes(byte))
    const byte = ends.length > 0 && random(3) === 0 ? ends[0]! : possible[random(possible.length)]!
    bytes.push(byte)
    state = move(state, byte)!
  }
}

const tree: Schema = {
  $ref: '#/$defs/tree',
  $defs: {
    tree: {
      type: 'object',
      properties: { value: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/tree' }, maxItems: 2 } },
      required: ['value'],
      additionalProperties: false,
    },
  },
}
const SCHEMAS: readonly (readonly [string, Schema])[] = [
  ['anything', {}],
  ['an object', { type: 'object' }],
  [
    'members, some of them optional',
    z.toJSONSchema(z.object({ a: z.string(), b: z.number().optional(), c: z.boolean().optional(), d: z.null() })),
  ],
  ['none of which is required', z.toJSONSchema(z.object({ a: z.string(), b: z.number(), 'quoted "c"': z.boolean() }).partial())],
  ['lists of bounded length', z.toJSONSchema(z.object({ list: z.array(z.boolean()).min(1).max(3), none: z.array(z.null()).max(0) }))],
  ['tuples', z.toJSONSchema(z.tuple([z.boolean(), z.int()], z.null()))],
  ['constants', z.toJSONSchema(z.object({ kind: z.literal('é"x'), of: z.enum(['one', 'two']), or: z.union([z.literal(1), z.null()]) }))],
  ['nullable', z.toJSONSchema(z.object({ a: z.string().nullable(), b: z.array(z.int().nullable()) }))],
  [
    'one of several, told apart',
    z.toJSONSchema(z.discriminatedUnion('k', [z.object({ k: z.literal('a'), n: z.int() }), z.object({ k: z.literal('b') })])),
  ],
  ['records', z.toJSONSchema(z.record(z.string().max(3), z.array(z.boolean())))],
  ['texts of bounded length', z.toJSONSchema(z.string().min(2).max(5))],
  ['several types', { type: ['string', 'null', 'integer'] }],
  ['trees', tree],
]

describe('all that can be written is valid, and it can always be ended:', () => {
  test.each(SCHEMAS)('%s', (_name, schema) => {
    const random = seeded(5)
    const validator = z.fromJSONSchema(schema as z.core.JSONSchema.JSONSchema)
    const grammar = grammarOf(schema)
    for (let i = 0; i < 40; i++) validator.parse(JSON.parse(written(grammar, random)))
  })

  test('numbers between any two', () => {
    const random = seeded(3)
    for (let round = 0; round < 8; round++) {
      const [a, b] = [random(4_000) / 10 - 200, random(4_000) / 10 - 200].map((n) => (random(2) === 0 ? Math.round(n) : n))
      const [low, high] = [Math.min(a!, b!), Math.max(a!, b!) + 1]
      const schema = {
        type: ['integer', 'number'][random(2)]!,
        ...(random(4) > 0 && { [random(2) ? 'minimum' : 'exclusiveMinimum']: low }),
        ...(random(4) > 0 && { [random(2) ? 'maximum' : 'exclusiveMaximum']: high + 1 }),
      }
      const validator = z.fromJSONSchema(schema as z.core.JSONSchema.JSONSchema)
      const grammar = grammarOf(schema)
      for (let i = 0; i < 5; i++) validator.parse(JSON.parse(written(grammar, random)))
      // Every whole number that fits can be written.
      for (let n = -203; n < 206; n += 19)
        expect([n, schema, accepts(grammar, String(n))]).toEqual([n, schema, validator.safeParse(n).success])
    }
  })
})

test.each<[string, Schema, string, boolean]>([
  ['blanks as people put them', SCHEMAS[2]![1], '{ "a": "x",\n  "b": -1.5e+10,\n\t"d": null\n}', true],
  ['members in another order', SCHEMAS[2]![1], '{"d":null,"a":"x"}', false],
  ['a member too many', SCHEMAS[2]![1], '{"a":"x","d":null,"e":1}', false],
  ['a comma too many', SCHEMAS[2]![1], '{"a":"x","d":null,}', false],
  ['any character, and its escape', { type: 'string' }, '"é🚀\\n\\u00e9\\uD7ff"', true],
  ['half a surrogate', { type: 'string' }, '"\\ud800"', false],
  ['a line break in a text', { type: 'string' }, '"\n"', false],
  ['a leading zero', { type: 'integer' }, '01', false],
  ['a fraction where it must be whole', { type: 'integer' }, '1.0', false],
  ['a list in a list in a list', {}, '[[[]],{"a":[{}]}]', true],
  ['more than may be nested', {}, '['.repeat(40) + ']'.repeat(40), false],
  ['text after the value', { type: 'null' }, 'null ', false],
])('%s', (_what, schema, text, allowed) => {
  expect(accepts(grammarOf(schema), text)).toBe(allowed)
})

describe('what cannot be held to is refused, with its place,', () => {
  const within = (property: unknown): Schema => ({ type: 'object', properties: { a: { type: 'array', items: property } } })
  const deep = (levels: number): unknown => (levels === 0 ? {} : { anyOf: [deep(levels - 1)] })
  test.each<[string, Schema, string, RegExp]>([
    ['a pattern', within({ type: 'string', pattern: '^a' }), 'properties.a.items.pattern', /cannot be held to/],
    ['a format', { type: 'string', format: 'date' }, 'format', /cannot be held to/],
    ['a negation', { not: {} }, 'not', /cannot be held to/],
    ['members by pattern', { type: 'object', patternProperties: {} }, 'patternProperties', /cannot be held to/],
    ['branches beside members', { type: 'object', anyOf: [{}] }, 'type', /cannot stand beside "anyOf"/],
    ['branches that may both hold', { oneOf: [{ type: 'number' }, { type: 'integer' }] }, 'oneOf', /apart/],
    ['what must all hold', { allOf: [{}, {}] }, 'allOf', /one branch/],
    ['a type that there is not', within({ type: 'int' }), 'properties.a.items.type', /must be one of/],
    ['what is no schema', within(3), 'properties.a.items', /must be a schema/],
    ['members that are a list', { properties: [] }, 'properties', /must be an object/],
    ['a count below nothing', { type: 'string', maxLength: -1 }, 'maxLength', /must be a count/],
    ['a bound of text', { type: 'number', minimum: '1' }, 'minimum', /must be a number/],
    ['a range without a whole number', { type: 'number', minimum: 0.2, maximum: 0.7 }, 'minimum', /no whole number/],
    ['a reference to elsewhere', { $ref: 'https://example.com/s' }, '$ref', /must point into/],
    ['a reference to nothing', { $ref: '#/$defs/a' }, '$ref', /points to nothing/],
    ['a circle', { $ref: '#' }, '', /satisfied by nothing/],
    [
      'members without an end',
      { $ref: '#/$defs/a', $defs: { a: { properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] } } },
      '',
      /satisfied by nothing/,
    ],
    ['what is nested 500 deep', deep(500) as Schema, '', /satisfied by nothing/],
    ['too many values', { enum: Array.from({ length: 1_001 }, (_, i) => i) }, 'enum', /at most 1000/],
    ['too long a schema', { const: 'x'.repeat(100_000) }, '', /longer than/],
    [
      'too large a schema',
      { properties: Object.fromEntries(Array.from({ length: 5_001 }, (_, i) => [i, {}])) },
      expect.any(String) as never,
      /too large/,
    ],
  ])('%s', (_what, schema, path, message) => {
    expect(() => schemaNode(schema, true)).toThrow(
      expect.objectContaining({ name: 'SchemaError', path, message: expect.stringMatching(message) }),
    )
  })

  test('unless it may be left to the policy', () => {
    const loose: Schema = {
      type: 'object',
      properties: { a: { type: 'string', pattern: '^a' }, b: { allOf: [{ type: 'null' }, {}] } },
      minProperties: 1,
    }
    expect(accepts(grammarOf(loose, false), '{"a":"b","b":null}')).toBe(true)
    expect(accepts(grammarOf(loose, false), '{"a":1}')).toBe(false)
  })
})
