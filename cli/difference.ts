// Where two values differ, by their place in them.

export interface Difference {
  /** E.g. `[1].return`. */
  readonly path: string
  readonly before: unknown
  readonly after: unknown
}

/**
 * Members that `before` lists and `after` has otherwise. What it does not list may be anything; lists are compared whole. Numbers may
 * differ in their last digits.
 */
export function differences(before: unknown, after: unknown, path = ''): Difference[] {
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = differences(before.length, after.length, `${path}.length`)
    const both = before.slice(0, after.length)
    return [...length, ...both.flatMap((item, i) => differences(item, after[i], `${path}[${i}]`))]
  }
  if (isObject(before) && isObject(after)) {
    return Object.entries(before).flatMap(([key, value]) => differences(value, after[key], path === '' ? key : `${path}.${key}`))
  }
  return same(before, after) ? [] : [{ path, before, after }]
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

function same(a: unknown, b: unknown): boolean {
  if (typeof a === 'number' && typeof b === 'number') return Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b))
  return Object.is(a, b)
}

const SHOWN = 120

export function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text
}
