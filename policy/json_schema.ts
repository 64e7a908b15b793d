// JSON that a schema allows, as a grammar. Members come in the schema's order, an object has no others than those that its schema names, unless that
// names none, and values are nested at most 32 deep, references and branches counted: so what is written is valid, though not all that is valid can be written. What a grammar cannot
// hold (`pattern`, `not`, `uniqueItems` …) is refused.

import { choice, NEVER, type Node } from './grammar.ts'
import {
  arrayOf,
  BOOLEAN,
  constant,
  INTEGER,
  member,
  NULL,
  NUMBER,
  numberBetween,
  objectOf,
  STRING,
  stringOf,
  type Bound,
} from './json_text.ts'

export type Schema = Readonly<Record<string, unknown>>

/** A schema that answers cannot be held to. */
export class SchemaError extends Error {
  override name = 'SchemaError'
  /** Where, below the schema: `properties.a.pattern`. */
  readonly path: string
  constructor(path: string, message: string) {
    super(message)
    this.path = path
  }
}

const MAX_NESTING = 32
/** Of schemas, each counted at every depth that it is met at. */
const MAX_VISITS = 5_000
const MAX_CHARACTERS = 100_000
const MAX_VALUES = 1_000

const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', '$schema', '$id', '$comment', '$defs', 'definitions']
/** Each stands alone: what is beside it would have to hold as well. */
const ALONE = ['$ref', 'anyOf', 'oneOf', 'allOf', 'const', 'enum'] as const
/** A schema without a type is of the first one that its keywords are for. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties', 'propertyNames'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  ...{ integer: [], boolean: [], null: [] },
}
const KNOWN = new Set<string>([...ANNOTATIONS, ...ALONE, 'type', ...Object.values(KEYWORDS).flat()])
const ANYTHING: Schema = {}

/**
 * @param exact whether every keyword must be held to; otherwise what a grammar cannot hold is left to whoever writes
 * Throws SchemaError where it must and cannot, and where nothing satisfies the schema.
 */
export function schemaNode(root: Schema, exact: boolean): Node {
  /** By schema, then by how deep it stands. */
  const known = new Map<Schema, Node[]>()
  let visits = 0

  function valueOf(given: unknown, path: string, depth: number): Node {
    if (given === false || depth > MAX_NESTING) return NEVER
    const schema = given === true ? ANYTHING : given
    if (!isRecord(schema)) throw new SchemaError(path, 'must be a schema')
    const nodes = known.get(schema) ?? []
    known.set(schema, nodes)
    if (nodes[depth]) return nodes[depth]
    if (++visits > MAX_VISITS) throw new SchemaError(path, 'makes the schema too large')
    return (nodes[depth] = read(schema, path, depth))
  }

  function read(schema: Schema, path: string, depth: number): Node {
    const at = (keyword: string) => (path === '' ? keyword : `${path}.${keyword}`)
    const alone = ALONE.find((keyword) => schema[keyword] !== undefined)
    if (exact) refuse(schema, alone, at)
    if (alone === '$ref') return valueOf(referred(schema.$ref, at(alone)), at(alone), depth + 1)
    if (alone === 'const') return constants([schema.const], schema.type)
    if (alone) {
      const branches = listOf(schema[alone], at(alone))
      if (alone === 'enum') return constants(branches, schema.type)
      if (exact && alone === 'allOf' && branches.length > 1) throw new SchemaError(at(alone), 'may have one branch')
      if (exact && alone === 'oneOf' && !areApart(branches.map((branch) => resolved(branch, at(alone)))))
        throw new SchemaError(at(alone), 'has branches that nothing tells apart: use anyOf, or a required member with a constant')
      const nodes = branches.map((branch, i) => valueOf(branch, `${at(alone)}[${i}]`, depth + 1))
      return alone === 'allOf' ? (nodes[0] ?? NEVER) : choice(...nodes)
    }
    const types = schema.type === undefined ? meantBy(schema) : [schema.type].flat()
    return choice(...types.map((type) => ofType(type, schema, at, depth)))
  }

  function ofType(type: unknown, schema: Schema, at: (keyword: string) => string, depth: number): Node {
    const count = (keyword: string) => countIn(schema, keyword, at)
    switch (type) {
      case 'string':
        return stringOf(count('minLength'), count('maxLength'))
      case 'number':
      case 'integer':
        return numberOf(schema, type === 'integer', at)
      case 'boolean':
        return BOOLEAN
      case 'null':
        return NULL
      case 'array': {
        const first = schema.prefixItems === undefined ? [] : listOf(schema.prefixItems, at('prefixItems'))
        const items = first.map((item, i) => valueOf(item, `${at('prefixItems')}[${i}]`, depth + 1))
        const more = valueOf(schema.items ?? items.length === 0, at('items'), depth + 1)
        return arrayOf(items, more, count('minItems'), count('maxItems'))
      }
      case 'object':
        return objectNode(schema, at, depth)
    }
    throw new SchemaError(at('type'), `must be one of ${Object.keys(KEYWORDS).join(', ')}`)
  }

  function objectNode(schema: Schema, at: (keyword: string) => string, depth: number): Node {
    const { properties = {}, additionalProperties: others = schema.properties === undefined, propertyNames = true } = schema
    if (!isRecord(properties)) throw new SchemaError(at('properties'), 'must be an object')
    const required = schema.required === undefined ? [] : listOf(schema.required, at('required'))
    const members = [...new Set([...Object.keys(properties), ...required.map(String)])].map((name) => {
      const [value, path] = Object.hasOwn(properties, name) ? [properties[name], `properties.${name}`] : [others, 'required']
      return { node: member(constant(name), valueOf(value, at(path), depth + 1)), required: required.includes(name) }
    })
    // Members of other names could have the names of those.
    if (members.length > 0 || others === false) return objectOf(members, NEVER)
    const name = propertyNames === true ? STRING : valueOf(propertyNames, at('propertyNames'), depth + 1)
    return objectOf([], member(name, valueOf(others, at('additionalProperties'), depth + 1)))
  }

  function referred(reference: unknown, path: string): unknown {
    const [, pointer] = /^#((?:\/[^/]+)*)$/.exec(String(reference)) ?? []
    if (pointer === undefined) throw new SchemaError(path, 'must point into the schema, as "#/$defs/name" does')
    let found: unknown = root
    for (const step of pointer.split('/').slice(1)) {
      const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
      const inside = isRecord(found) || Array.isArray(found) ? Object.entries(found) : []
      found = inside.find(([key]) => key === name)?.[1]
    }
    if (found === undefined) throw new SchemaError(path, `points to nothing (${String(reference)})`)
    return found
  }

  const resolved = (branch: unknown, path: string): unknown =>
    isRecord(branch) && branch.$ref !== undefined ? referred(branch.$ref, path) : branch

  if (JSON.stringify(root).length > MAX_CHARACTERS) throw new SchemaError('', `is longer than ${MAX_CHARACTERS} characters`)
  const node = valueOf(root, '', 0)
  if (node === NEVER) throw new SchemaError('', `is satisfied by nothing that is nested at most ${MAX_NESTING} deep`)
  return node
}

const isRecord = (value: unknown): value is Schema => typeof value === 'object' && value !== null && !Array.isArray(value)

function refuse(schema: Schema, alone: string | undefined, at: (keyword: string) => string): void {
  const beside = [alone, ...ANNOTATIONS, ...(alone === 'enum' || alone === 'const' ? ['type'] : [])]
  for (const keyword of Object.keys(schema)) {
    if (!KNOWN.has(keyword)) throw new SchemaError(at(keyword), 'is a keyword that answers cannot be held to')
    if (alone && !beside.includes(keyword)) throw new SchemaError(at(keyword), `cannot stand beside "${alone}"`)
  }
}

function listOf(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value) || value.length > MAX_VALUES) throw new SchemaError(path, `must be a list of at most ${MAX_VALUES}`)
  return value
}

function countIn(schema: Schema, keyword: string, at: (keyword: string) => string): number | undefined {
  const value = schema[keyword]
  if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 0)) throw new SchemaError(at(keyword), 'must be a count')
  return value as number | undefined
}

function numberOf(schema: Schema, whole: boolean, at: (keyword: string) => string): Node {
  const bounds = KEYWORDS.number!.filter((keyword) => schema[keyword] !== undefined)
  if (bounds.length === 0) return whole ? INTEGER : NUMBER
  /** The tighter of a bound that is in and one that is out. */
  const bound = (keywords: readonly string[], sign: 1 | -1): Bound =>
    keywords.reduce<Bound>(
      (tightest, keyword, i) => {
        const value = schema[keyword] ?? -sign * Infinity
        if (typeof value !== 'number') throw new SchemaError(at(keyword), 'must be a number')
        return sign * (value - tightest.value) >= 0 ? { value, open: i === 1 } : tightest
      },
      { value: -sign * Infinity, open: false },
    )
  const node = numberBetween(bound(['minimum', 'exclusiveMinimum'], 1), bound(['maximum', 'exclusiveMaximum'], -1), whole)
  if (node === NEVER) throw new SchemaError(at(bounds[0]!), 'leaves no whole number to begin with')
  return node
}

function meantBy(schema: Schema): readonly string[] {
  const types = Object.keys(KEYWORDS)
  const meant = types.find((type) => KEYWORDS[type]!.some((keyword) => schema[keyword] !== undefined))
  return meant ? [meant] : types.filter((type) => type !== 'integer')
}

/** Those of the values that are of the type. */
function constants(values: readonly unknown[], type: unknown): Node {
  const types = [type].flat()
  const fits = (value: unknown) => types.includes(typeOf(value)) || (types.includes('integer') && Number.isInteger(value))
  return choice(...values.filter((value) => type === undefined || fits(value)).map(constant))
}

const typeOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value)

/** No value is of two of them: they are of different types, or objects that must have a member with one constant each. */
function areApart(branches: readonly unknown[]): boolean {
  if (!branches.every(isRecord)) return false
  const differ = (values: readonly unknown[]) => new Set(values.map((value) => JSON.stringify(value))).size === values.length
  const types = branches.map(({ type }) => (type === 'integer' ? 'number' : type))
  if (types.every((type) => typeof type === 'string') && differ(types)) return true
  const constantOf = ({ properties, required }: Schema, name: string): unknown => {
    const property = isRecord(properties) && listed(required, name) ? properties[name] : undefined
    return isRecord(property) ? property.const : undefined
  }
  return Object.keys((branches[0]?.properties as object | undefined) ?? {}).some((name) => {
    const values = branches.map((branch) => constantOf(branch, name))
    return !values.includes(undefined) && differ(values)
  })
}

const listed = (required: unknown, name: string) => Array.isArray(required) && required.includes(name)
