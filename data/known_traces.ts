// Spans of a trace come one by one, between those of others. Its id is written out once, and the string shared.

import { putHex, viewOf, word } from './bytes.ts'
import type { Watched } from './open_rollout.ts'
import { openSheets } from './sheets.ts'

export interface KnownTrace {
  readonly id: string
  /** Of a rollout of its own: the id and a NUL, in one piece, since one of two is put together each time it is looked up. */
  readonly key: string
  /** The rollout that its spans were added to last, unless they name another, and when that was found: open_rollouts.ts tells whether it is good. */
  rollout: Watched | undefined
  found: number
}

/** One place for each hash; whoever comes last has it. */
const PLACES = 8_192

/** The trace at each place. */
const traces = new Array<KnownTrace | undefined>(PLACES).fill(undefined)
/** The id at each place, as four words. */
const known = new Int32Array(4 * PLACES)

/** The 16 bytes at `at`, not all of them zero, as 32 lower-case hex digits. */
export const knownTrace = (bytes: Buffer, at: number): string => traces[placeOf(bytes, at)]!.id

/** Where the id is kept until another takes its place. */
function placeOf(bytes: Buffer, at: number): number {
  const a = word(bytes, at)
  const b = word(bytes, at + 4)
  const c = word(bytes, at + 8)
  const d = word(bytes, at + 12)
  const hash = Math.imul(a ^ c, 0x9e3779b1) ^ Math.imul(b ^ d, 0x85ebca6b)
  const place = (hash ^ (hash >>> 15)) & (PLACES - 1)
  const first = 4 * place
  if (known[first] === a && known[first + 1] === b && known[first + 2] === c && known[first + 3] === d) return place
  known[first] = a
  known[first + 1] = b
  known[first + 2] = c
  known[first + 3] = d
  putHex(writtenView, 0, bytes, at, 16)
  traces[place] = { id: written.toString('latin1', 0, 32), key: written.toString('latin1'), rollout: undefined, found: 0 }
  return place
}

const written = Buffer.alloc(33)
const writtenView = viewOf(written)

/** The traces of a list of items. */
export interface Traces {
  /** A trace may stand here more than once. */
  readonly known: readonly KnownTrace[]
  /** Of each item, its place in `known`; NO_TRACE for one outside of any. */
  readonly of: Int32Array
}

export const NO_TRACE = -1

/** The trace at each place of those above as the latest list has it: its place there, and which list that was. */
const listed = new Int32Array(PLACES)
const lists = new Float64Array(PLACES)
let list = 0

const sheets = openSheets()

/** The traces of items whose ids stand at `offsets[first]` and each `stride` after it; 0 for one outside of any. */
export function tracesOf(bytes: Buffer, offsets: Int32Array, first: number, stride: number): Traces {
  const found: KnownTrace[] = []
  const count = Math.ceil((offsets.length - first) / stride)
  const room = sheets.begin()
  sheets.makeRoom(room, 0, count)
  const { cells, start } = room
  list++
  for (let i = start, at = first; at < offsets.length; i++, at += stride) {
    const offset = offsets[at]!
    if (offset === 0) {
      cells[i] = NO_TRACE
      continue
    }
    const place = placeOf(bytes, offset)
    const trace = traces[place]!
    if (lists[place] !== list || found[listed[place]!] !== trace) {
      lists[place] = list
      listed[place] = found.push(trace) - 1
    }
    cells[i] = listed[place]!
  }
  sheets.end(room, count)
  return { known: found, of: cells.subarray(start, start + count) }
}
