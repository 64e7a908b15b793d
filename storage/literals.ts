// Lists of values in a statement's text. Parameters travel in the URL, which holds about a thousand ids.

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '\0': '\\0' }
export const literal = (text: string): string => `'${text.replace(/[\\'\0]/g, (c) => ESCAPES[c]!)}'`

/** From here on a list is cheaper to split than to parse, value by value. */
const MANY = 100

/** For the right side of IN. */
export function textList(values: Iterable<string>): string {
  const all = [...values]
  return isSplit(all) ? `(${textRows(all)})` : `(${all.map(literal).join(',') || "''"})`
}

/** The same as a SELECT. */
export function textRows(values: Iterable<string>): string {
  const all = [...values]
  return `SELECT arrayJoin(${isSplit(all) ? `splitByChar('\\0', ${literal(all.join('\0'))})` : `[${all.map(literal).join(',')}]`})`
}

const isSplit = (values: readonly string[]): boolean => values.length >= MANY && !values.some((value) => value.includes('\0'))

/** For what reads or writes little: more threads only cost more. A statement that reads a whole table sets 0, as many as there are. */
export const SMALL_STATEMENT = { max_threads: 1 } as const

/** A statement may be so long then. */
export const LONG_STATEMENT = { max_query_size: '100000000' } as const
