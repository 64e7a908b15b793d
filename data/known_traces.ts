// Spans of a trace come one by one, between those of others. Its id is written out once, and the string shared.

/** One place for each hash; whoever comes last has it. */
const PLACES = 8_192

const ids = new Array<string>(PLACES).fill('')
/** The id at each place, as four words. */
const known = new Int32Array(4 * PLACES)

/** The 16 bytes at `at`, not all of them zero, as 32 lower-case hex digits. */
export function knownTrace(bytes: Buffer, at: number): string {
  const a = word(bytes, at)
  const b = word(bytes, at + 4)
  const c = word(bytes, at + 8)
  const d = word(bytes, at + 12)
  const hash = Math.imul(a ^ c, 0x9e3779b1) ^ Math.imul(b ^ d, 0x85ebca6b)
  const place = (hash ^ (hash >>> 15)) & (PLACES - 1)
  const first = 4 * place
  if (known[first] === a && known[first + 1] === b && known[first + 2] === c && known[first + 3] === d) return ids[place]!
  known[first] = a
  known[first + 1] = b
  known[first + 2] = c
  known[first + 3] = d
  return (ids[place] = bytes.toString('hex', at, at + 16))
}

const word = (bytes: Buffer, at: number): number => bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
