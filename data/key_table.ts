// Finds which of a few known keys stands at a place in a buffer, without making a string of it.

export interface KeyTable {
  readonly keys: readonly Buffer[]
  /** First key of each hash, and the next of the same hash; -1 for none. */
  readonly first: Int16Array
  readonly next: Int16Array
}

const tables = new WeakMap<readonly string[], KeyTable>()

/** The same for the same list. */
export function keyTable(names: readonly string[]): KeyTable {
  const table = tables.get(names) ?? built(names)
  tables.set(names, table)
  return table
}

function built(names: readonly string[]): KeyTable {
  const keys = names.map((name) => Buffer.from(name))
  const first = new Int16Array(256).fill(-1)
  const next = new Int16Array(keys.length).fill(-1)
  keys.forEach((key, i) => {
    const h = hash(key, 0, key.length)
    next[i] = first[h]!
    first[h] = i
  })
  return { keys, first, next }
}

/** Position of the key among those of the table, or -1. */
export function findKey({ keys, first, next }: KeyTable, bytes: Buffer, start: number, length: number): number {
  for (let i = first[hash(bytes, start, length)]!; i >= 0; i = next[i]!) {
    const key = keys[i]!
    if (key.length !== length) continue
    let at = length - 1
    while (at >= 0 && bytes[start + at] === key[at]) at--
    if (at < 0) return i
  }
  return -1
}

/** Length and two bytes tell attribute keys apart well: most begin alike. */
const hash = (bytes: Buffer, start: number, length: number) =>
  length === 0 ? 0 : (length * 7 + bytes[start + length - 1]! * 31 + bytes[start + (length >> 1)]! * 17) & 255
