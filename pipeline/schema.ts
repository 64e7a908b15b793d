// Option schemas. Each field carries its own documentation, so that reference pages, validation
// and error texts come from one line of code.

/** What other components use an extension for. */
export type Role = 'authenticator' | 'storage'

export interface Field<T> {
  readonly doc: string
  /** What the value must be, to stand after "must be". */
  readonly expects: string
  /** As it would be written in YAML; absent means the option is required. `null` means "not set". */
  readonly default?: unknown
  /** What the reference page shows where there is no default. */
  readonly example?: unknown
  /** Old or common names of the option that still work, with a warning. */
  readonly aliases?: readonly string[]
  readonly secret?: boolean
  /** The field takes the text of an expansion such as ${env:X} as it is (0123 stays "0123"), not what YAML makes of it. */
  readonly text?: boolean
  /** The value is the id of an extension of this role, and service::extensions must list it. */
  readonly extension?: Role
  /** Fields below this one: a nested group. */
  readonly fields?: Fields
  /** The field of each item of a list or each value of a map. */
  readonly items?: Field<any>
  readonly type: 'text' | 'flag' | 'number' | 'choice' | 'duration' | 'list' | 'map' | 'group'
  /** Returns undefined when the value does not fit; problems below it are reported with their own path. */
  read(value: unknown, path: readonly string[], problems: Problem[]): T | undefined
  /** What to do about a value that does not fit, where that can be told. */
  advice?(value: unknown): string | undefined
}

export type Fields = Readonly<Record<string, Field<any>>>
export type Config<F extends Fields> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never }

export interface Problem {
  readonly path: readonly string[]
  readonly message: string
}

/** Stands for a value that could not be found out, e.g. one from a missing file. That is reported already. */
export const UNKNOWN = Symbol('unknown')

interface Options<T> {
  default?: T
  example?: T
  aliases?: readonly string[]
}
type Optional<T> = { default: null } & Omit<Options<T>, 'default'>

export function text(doc: string, options: Optional<string>): Field<string | null>
export function text(doc: string, options?: Options<string>): Field<string>
export function text(doc: string, options: object = {}): Field<any> {
  return {
    type: 'text',
    text: true,
    doc,
    expects: 'a string',
    ...options,
    read: (value) => (typeof value === 'string' ? value : undefined),
    advice: (value) => (isRecord(value) || Array.isArray(value) ? undefined : 'put it in quotes'),
  }
}

export function secret(doc: string, options: Optional<string>): Field<string | null>
export function secret(doc: string, options?: Options<string>): Field<string>
export function secret(doc: string, options: object = {}): Field<any> {
  return { ...text(doc, options), secret: true }
}

/** The id of an extension. Validation says when nothing of that role runs under it. */
export function extensionId(role: Role, doc: string, options: Optional<string>): Field<string | null>
export function extensionId(role: Role, doc: string, options?: Options<string>): Field<string>
export function extensionId(role: Role, doc: string, options: object = {}): Field<any> {
  return { ...text(doc, options), expects: 'the id of an extension', extension: role }
}

export const flag = (doc: string, options: Options<boolean> = {}): Field<boolean> => ({
  type: 'flag',
  doc,
  expects: 'true or false',
  ...options,
  read: (value) => (typeof value === 'boolean' ? value : undefined),
})

interface NumberOptions extends Options<number> {
  min?: number
  max?: number
  integer?: boolean
}

export function number(doc: string, options: { default: null } & Omit<NumberOptions, 'default'>): Field<number | null>
export function number(doc: string, options?: NumberOptions): Field<number>
export function number(
  doc: string,
  { min = -Infinity, max = Infinity, integer = false, ...options }: { min?: number; max?: number; integer?: boolean } = {},
): Field<any> {
  return {
    type: 'number',
    doc,
    expects: range(integer ? 'an integer' : 'a number', min, max),
    ...options,
    read(value) {
      if (typeof value !== 'number' || !Number.isFinite(value) || value < min || value > max) return undefined
      return !integer || Number.isSafeInteger(value) ? value : undefined
    },
  }
}

export const oneOf = <const T extends string>(values: readonly T[], doc: string, options: Options<NoInfer<T>> = {}): Field<T> => ({
  type: 'choice',
  text: true,
  doc,
  expects: `one of ${values.join(', ')}`,
  ...options,
  read: (value) => values.find((v) => v === value),
  advice: (value) => (values.some((v) => v === String(value)) ? 'put it in quotes' : undefined),
})

export const list = <T>(item: Field<T>, doc: string, options: Options<readonly NoInfer<Partial<T>>[]> = {}): Field<readonly T[]> => ({
  type: 'list',
  items: item,
  doc,
  expects: `a list, each item ${item.expects}`,
  ...options,
  read(value, path, problems) {
    if (!Array.isArray(value)) return undefined
    return value.map((v, i) => readField(item, v, [...path, String(i)], problems)) as T[]
  },
})

/** A map from any key to values of one kind. */
export const map = <T>(
  item: Field<T>,
  doc: string,
  options: Options<Readonly<Record<string, NoInfer<Partial<T>>>>> = {},
): Field<Readonly<Record<string, T>>> => ({
  type: 'map',
  items: item,
  doc,
  expects: `a map, each value ${item.expects}`,
  ...options,
  read(value, path, problems) {
    if (!isRecord(value)) return undefined
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, readField(item, v, [...path, k], problems)])) as Record<string, T>
  },
})

/** Options below an option. `null` in the file means all defaults; `default: null` means it is off unless it is written. */
export function group<F extends Fields>(fields: F, doc: string, options: { default: null }): Field<Config<F> | null>
export function group<F extends Fields>(fields: F, doc: string, options?: object): Field<Config<F>>
export function group<F extends Fields>(fields: F, doc: string, options: object = {}): Field<any> {
  return {
    type: 'group',
    fields,
    doc,
    expects: 'a map of options',
    default: {},
    ...options,
    read: (value, path, problems) => readConfig(fields, value, path, problems),
  }
}

/** Milliseconds per unit of Go's duration strings. */
const UNITS: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }
const DURATION = /(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)/g
const BARE_NUMBER = /^\d+\.?\d*$/

/** A duration such as 200ms, 5s or 1h30m, read as milliseconds. */
export function duration(doc: string, options: { default: null; min?: number; example?: string }): Field<number | null>
export function duration(doc: string, options?: { default?: string; min?: number; example?: string }): Field<number>
export function duration(
  doc: string,
  { min = 0, ...options }: { default?: string | null; min?: number; example?: string } = {},
): Field<any> {
  return {
    type: 'duration',
    text: true,
    doc,
    expects: `a duration such as 200ms, 5s or 1h30m${min > 0 ? `, at least ${formatDuration(min)}` : ''}`,
    ...options,
    read(value) {
      const written = String(value)
      if (written !== '0' && (written === '' || written.replace(DURATION, '') !== '')) return undefined
      const total = [...written.matchAll(DURATION)].reduce((sum, [, n, unit]) => sum + Number(n) * UNITS[unit!]!, 0)
      return total >= min ? total : undefined
    },
    advice: (value) => (BARE_NUMBER.test(String(value)) ? `give it a unit, e.g. ${value}s` : undefined),
  }
}

/** Milliseconds as Go prints them: 250ms, 1.5s, 5m0s, 1h30m0s. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s'
  if (ms < 1e-3) return `${Math.round(ms / UNITS.ns!)}ns`
  if (ms < 1) return `${ms / UNITS.µs!}µs`
  if (ms < 1_000) return `${ms}ms`
  const [hours, minutes, seconds] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60, (ms % 60_000) / 1_000]
  if (hours > 0) return `${hours}h${minutes}m${seconds}s`
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`
}

/** Reads one component's options. Every problem is collected, none is thrown; what is returned is whole only where there is none. */
export function readConfig<F extends Fields>(fields: F, input: unknown, path: readonly string[], problems: Problem[]): Config<F> {
  const given = input ?? {}
  const config: Record<string, unknown> = {}
  if (!isRecord(given)) {
    problems.push({ path, message: `must be a map of options (got ${shown(input, { fields })})` })
    return config as Config<F>
  }
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(fields, key))
      problems.push({ path: [...path, key], message: `unknown option${didYouMean(key, Object.keys(fields))}` })
  }
  for (const [key, field] of Object.entries(fields)) {
    const raw = chosen(field, Object.hasOwn(given, key) ? given[key] : undefined)
    if (raw === undefined) problems.push({ path, message: `needs "${key}": ${field.expects}` })
    else config[key] = readField(field, raw, [...path, key], problems)
  }
  return config as Config<F>
}

/** A key without a value is the default, except that it switches a group on. */
function chosen(field: Field<any>, written: unknown): unknown {
  if (written === null && field.type === 'group') return {}
  return written ?? field.default
}

function readField<T>(field: Field<T>, raw: unknown, path: readonly string[], problems: Problem[]): T | null | undefined {
  if (raw === UNKNOWN) return undefined
  if (raw === null && field.default === null) return null
  const before = problems.length
  const value = field.read(raw, path, problems)
  if (value === undefined && problems.length === before) {
    const advice = field.advice?.(raw)
    problems.push({ path, message: `must be ${field.expects}${advice ? `: ${advice}` : ''} (got ${shown(raw, field)})` })
  }
  return value
}

/** A value for an error message: short, and never one that may hold a secret. */
function shown(value: unknown, field: Secrecy): string {
  if (hides(field)) return 'a hidden value'
  const json =
    typeof value === 'number' ? String(value) : (JSON.stringify(value, (_key, part) => (part === UNKNOWN ? '…' : part)) ?? 'nothing')
  return json.length > 80 ? `${json.slice(0, 80)}…` : json
}

type Secrecy = Pick<Field<any>, 'secret' | 'items' | 'fields'>

function hides({ secret = false, items, fields = {} }: Secrecy): boolean {
  return secret || (items !== undefined && hides(items)) || Object.values(fields).some(hides)
}

/** Ends a message about an unknown word: the known one that is nearest, or all of them. */
export function didYouMean(word: string, known: readonly string[]): string {
  return nearMiss(word, known) || ` (known: ${known.join(', ') || 'none'})`
}

/** Like didYouMean, but says nothing where no known word is near. */
export function nearMiss(word: string, known: readonly string[]): string {
  const [near] = known.map((name) => ({ name, far: distance(word, name) })).sort((a, b) => a.far - b.far)
  return near && near.far <= Math.ceil(word.length / 3) ? `, did you mean "${near.name}"?` : ''
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function range(what: string, min: number, max: number): string {
  if (min > -Infinity && max < Infinity) return `${what} from ${min} to ${max}`
  if (min > -Infinity) return `${what}, at least ${min}`
  if (max < Infinity) return `${what}, at most ${max}`
  return what
}

/** Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]!
}
