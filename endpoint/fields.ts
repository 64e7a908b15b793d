// Reads the members of a request. `null` is as good as absent, as OpenAI has it; what is wrong is said with the name of the member.

import { invalid } from './errors.ts'

export type Json = Readonly<Record<string, unknown>>

export const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

export function numberIn(body: Json, name: string, min: number, max: number): number | undefined {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== 'number' || value < min || value > max) throw wrong(name, `a number from ${min} to ${max}`, value)
  return value
}

export function integerIn(body: Json, name: string, min: number, max = Number.MAX_SAFE_INTEGER): number | undefined {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  const range = max === Number.MAX_SAFE_INTEGER ? `an integer, at least ${min}` : `an integer from ${min} to ${max}`
  if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max) throw wrong(name, range, value)
  return value as number
}

export function flagIn(body: Json, name: string, at = name): boolean | undefined {
  const value = body[name] ?? undefined
  if (value !== undefined && typeof value !== 'boolean') throw wrong(at, 'true or false', value)
  return value
}

export function textIn(body: Json, name: string, at = name): string | undefined {
  const value = body[name] ?? undefined
  if (value !== undefined && typeof value !== 'string') throw wrong(at, 'a string', value)
  return value
}

export function listIn(body: Json, name: string, max: number, at = name): readonly unknown[] | undefined {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  if (!Array.isArray(value)) throw wrong(at, 'a list', value)
  if (value.length > max) throw invalid(at, `'${at}' must hold at most ${max} items (got ${value.length})`, 'array_above_max_length')
  return value
}

export function recordIn(body: Json, name: string, at = name): Json | undefined {
  const value = body[name] ?? undefined
  if (value !== undefined && !isJson(value)) throw wrong(at, 'an object', value)
  return value
}

export const wrong = (name: string, expected: string, value: unknown) =>
  invalid(name, `'${name}' must be ${expected} (got ${shown(value)})`, 'invalid_type')

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(value).slice(0, 80)
}
