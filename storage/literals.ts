// Lists of values in a statement's text. Parameters travel in the URL, which holds about a thousand ids.

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '\0': '\\0' }
const literal = (text: string): string => `'${text.replace(/[\\'\0]/g, (c) => ESCAPES[c]!)}'`

/** For the right side of IN. */
export const textList = (values: Iterable<string>): string => `(${[...values].map(literal).join(',') || "''"})`

/** For what reads or writes little: more threads only cost more. A statement that reads a whole table sets 0, as many as there are. */
export const SMALL_STATEMENT = { max_threads: 1 } as const

/** A statement may be so long then. */
export const LONG_STATEMENT = { max_query_size: '100000000' } as const
