// Hides what must not be kept in a span, a log record, a resource or a scope, given as OTLP/JSON. Texts that hold JSON are read, and
// written again only where something in them was hidden, so that they stay JSON; their numbers stay as they were written.

import { randomBytes } from 'node:crypto'

import { parseJson, replaceNumbers } from './parse_json.ts'

export interface Rules {
  /** A text without what must not be kept; the same text where there is nothing of it. `attribute` holds the text; '' for a name or a body. */
  text(text: string, attribute: string): string
  /** What stands for the value of a hidden key. */
  hide(value: string, attribute: string): string
  /** Keys of attributes, and of members of what they hold, whose values are hidden whole. */
  hides(key: string): boolean
  /** Keys, likewise, that go with their values. */
  drops(key: string): boolean
  /** Keys of attributes that may stay. */
  keeps(key: string): boolean
}

type Json = Readonly<Record<string, unknown>>
type KeyValue = { readonly key?: string; readonly value?: AnyValue }
type AnyValue = {
  readonly stringValue?: string
  readonly intValue?: string
  readonly doubleValue?: unknown
  readonly bytesValue?: string
  readonly arrayValue?: { readonly values?: readonly AnyValue[] }
  readonly kvlistValue?: { readonly values?: readonly KeyValue[] }
}

/** Numbers this long may be somebody's: shorter ones are counts and times. */
const LONG_NUMBER = /^\d{13,19}$/

/** Beyond it, parseJson() gives integers as text. */
const LONG = 16
/** Before the digits of a number that no double would give back as it was written: it is a text while it is looked at. Nobody can know it. */
const WRITTEN = `${randomBytes(12).toString('base64url')} `
const KEPT_NUMBER = new RegExp(`"${WRITTEN}([^"]*)"`, 'g')

/** The same message when there is nothing to hide. */
export function redact(message: Json, rules: Rules): Json {
  return patched(message, {
    name: of(message.name, (name: string) => rules.text(name, '')),
    attributes: attributes(message.attributes, rules),
    events: listOf(message.events, (event: Json) => redact(event, rules)),
    links: listOf(message.links, (link: Json) => redact(link, rules)),
    status: of(message.status, (status: Json) => patched(status, { message: of(status.message, (said: string) => rules.text(said, '')) })),
    body: of(message.body, (body: AnyValue) => anyValue(body, '', rules)),
  })
}

function attributes(list: unknown, rules: Rules): unknown {
  if (!Array.isArray(list)) return list
  return keyValues(
    kept(list as readonly KeyValue[], ({ key = '' }) => rules.keeps(key)),
    (key) => key,
    rules,
  )
}

/** @param attributeOf the attribute that a pair is, or is a part of */
function keyValues(list: readonly KeyValue[], attributeOf: (key: string) => string, rules: Rules): unknown {
  return listOf(
    kept(list, ({ key = '' }) => !rules.drops(key)),
    (pair: KeyValue) => {
      const { key = '', value } = pair
      if (value === undefined) return pair
      const attribute = attributeOf(key)
      if (!rules.hides(key)) return patched(pair, { value: anyValue(value, attribute, rules) })
      return { key, value: { stringValue: rules.hide(value.stringValue ?? JSON.stringify(value), attribute) } }
    },
  )
}

function anyValue(value: AnyValue, attribute: string, rules: Rules): AnyValue {
  const { stringValue, intValue, bytesValue, arrayValue, kvlistValue } = value
  if (stringValue !== undefined) return patched(value, { stringValue: text(stringValue, attribute, rules) })
  if (intValue !== undefined) {
    const out = number(intValue, attribute, rules)
    return out === intValue ? value : { stringValue: out }
  }
  if (bytesValue !== undefined) {
    const before = Buffer.from(bytesValue, 'base64').toString()
    const out = text(before, attribute, rules)
    return out === before ? value : { bytesValue: Buffer.from(out).toString('base64') }
  }
  if (arrayValue) {
    return patched(value, {
      arrayValue: patched(arrayValue, { values: listOf(arrayValue.values, (item: AnyValue) => anyValue(item, attribute, rules)) }),
    })
  }
  if (!kvlistValue) return value
  return patched(value, {
    kvlistValue: patched(kvlistValue, { values: keyValues(kvlistValue.values ?? [], () => attribute, rules) }),
  })
}

function text(written: string, attribute: string, rules: Rules): string {
  if (!/^\s*[[{]/.test(written)) return rules.text(written, attribute)
  try {
    const value = parseJson(replaceNumbers(written, asText))
    const out = json(value, attribute, rules)
    return out === value ? written : stringify(out)
  } catch {
    // No JSON after all, or nested deeper than a stack: as any other text.
    return rules.text(written, attribute)
  }
}

const asText = (number: string): string => (number.length < LONG && String(Number(number)) === number ? number : `"${WRITTEN}${number}"`)
const stringify = (value: unknown): string => JSON.stringify(value).replace(KEPT_NUMBER, '$1')

function json(value: unknown, attribute: string, rules: Rules): unknown {
  if (typeof value === 'string' && value.startsWith(WRITTEN)) {
    const digits = value.slice(WRITTEN.length)
    const out = number(digits, attribute, rules)
    return out === digits ? value : out
  }
  if (typeof value === 'string') return text(value, attribute, rules)
  if (typeof value === 'number') {
    const out = number(String(value), attribute, rules)
    return out === String(value) ? value : out
  }
  if (Array.isArray(value)) return listOf(value, (item) => json(item, attribute, rules))
  if (typeof value !== 'object' || value === null) return value
  let same = true
  const members = Object.entries(value).flatMap(([key, member]) => {
    const out = rules.drops(key) ? undefined : rules.hides(key) ? rules.hide(plain(member), attribute) : json(member, attribute, rules)
    same &&= out === member
    return out === undefined ? [] : [[key, out]]
  })
  return same ? value : Object.fromEntries(members)
}

const plain = (value: unknown): string =>
  typeof value === 'string' ? (value.startsWith(WRITTEN) ? value.slice(WRITTEN.length) : value) : stringify(value)

const number = (digits: string, attribute: string, rules: Rules): string =>
  LONG_NUMBER.test(digits) ? rules.text(digits, attribute) : digits

const of = <T>(value: unknown, change: (value: T) => T): unknown => (value === undefined ? value : change(value as T))

/** The same list where no item changes. */
function listOf<T>(list: unknown, change: (item: T) => unknown): any {
  if (!Array.isArray(list)) return list
  const out = list.map(change as (item: unknown) => unknown)
  return out.some((item, i) => item !== list[i]) ? out : list
}

/** The same list where all may stay. */
function kept<T>(list: readonly T[], stays: (item: T) => boolean): readonly T[] {
  return list.every(stays) ? list : list.filter(stays)
}

/** The same object where no member changes. */
function patched<T extends object>(object: T, members: { readonly [K in keyof T]?: unknown }): T {
  const before = object as Readonly<Record<string, unknown>>
  const changes = Object.entries(members).filter(([key, value]) => value !== before[key])
  return changes.length === 0 ? object : { ...object, ...Object.fromEntries(changes) }
}
