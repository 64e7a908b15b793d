// Lists of values in a statement's text. Parameters travel in the URL, which holds about a thousand ids.

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '\0': '\\0' }
export const literal = (text: string): string => `'${text.replace(/[\\'\0]/g, (c) => ESCAPES[c]!)}'`

/** From here on a list is cheaper to split than to parse, value by value. */
const MANY = 100

/** For the right side of IN. */
export function textList(values: Iterable<string>): string {
  const all = [...values]
  const joined = all.join('\0')
  if (all.length < MANY || joined.split('\0').length !== all.length) return `(${all.map(literal).join(',') || "''"})`
  return `(SELECT arrayJoin(splitByChar('\\0', ${literal(joined)})))`
}

/** For what reads or writes little: more threads only cost more. A statement that reads a whole table sets 0, as many as there are. */
export const SMALL_STATEMENT = { max_threads: 1 } as const

/** A statement may be so long then. */
export const LONG_STATEMENT = { max_query_size: '100000000' } as const
