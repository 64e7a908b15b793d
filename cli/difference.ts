// Where two values differ, said so that a person finds the place.

const SHOWN = 120

/**
 * Members that `expected` lists and `actual` has otherwise, one line each, e.g. `[1].return: expected 0.5, got 0.3`. What it does not list may
 * be anything; lists are compared whole. Numbers may differ in their last digits.
 */
export function differences(expected: unknown, actual: unknown, path = ''): string[] {
  if (Array.isArray(expected) && Array.isArray(actual)) {
    const length =
      expected.length === actual.length ? [] : [`${path || 'the list'}: expected ${expected.length} items, got ${actual.length}`]
    const pairs = expected.slice(0, actual.length)
    return [...length, ...pairs.flatMap((item, i) => differences(item, actual[i], `${path}[${i}]`))]
  }
  if (isObject(expected) && isObject(actual)) {
    return Object.entries(expected).flatMap(([key, value]) => differences(value, actual[key], path === '' ? key : `${path}.${key}`))
  }
  return same(expected, actual) ? [] : [`${path}: expected ${shown(expected)}, got ${shown(actual)}`]
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

function same(a: unknown, b: unknown): boolean {
  if (typeof a === 'number' && typeof b === 'number') return Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b))
  return Object.is(a, b)
}

export function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text
}
