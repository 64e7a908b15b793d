// The latest spans, in the very buffers in which they were sent to be stored: what is held for open rollouts are these rows, and nothing is
// copied. A row points back at the one before it of the same chain, so a chain is two numbers. Buffers are filled one after the other; the
// oldest is the next to be written over, and with it goes every chain that began in it.

import { placeInShared, takeMemory } from './shared_memory.ts'
import type { RawItem } from './span_batch.ts'

export const SEGMENT_BYTES = 8 << 20
const SEGMENT_ROWS = 10_000

export interface SpanMemoryOptions {
  /** Bytes of segments that nobody writes to or sends; those come on top. None where nothing is said. */
  readonly limit?: number
  /** Reads the row that begins there, into memory of its own. */
  readonly itemAt: (bytes: Buffer, start: number) => RawItem
  /** What a segment holds at most, unless a single row is larger. */
  readonly segmentBytes?: number
}

/** A buffer of rows. */
export interface Segment {
  /** Those that were begun before. */
  readonly number: number
  bytes: Buffer
  /** Where `bytes` begin in the shared memory, or NOT_SHARED. */
  readonly place: number
  length: number
  count: number
  /** Where each row begins. */
  readonly starts: Int32Array
  /** How many rows before each stands its predecessor; 0: it has none. */
  readonly back: Int32Array
  /** Whoever writes to it or sends it. */
  users: number
}

/** Items `from` up to `to` of a batch are rows of a segment, from `row` on. */
export interface Run {
  readonly segment: Segment
  readonly row: number
  readonly from: number
  readonly to: number
}

/** Items of a batch: the ascending indices that stand in `order` from `from` up to `to`. */
export interface Items {
  readonly order: Int32Array
  readonly from: number
  readonly to: number
}

/** The first segment of which it has rows, and its last row. */
export interface Chain {
  since: number
  last: number
}

export interface SpanMemory {
  /** A segment with room for a row of so many bytes. It is not written over before it was let go as often as it was taken. */
  take(size: number): Segment
  letGo(segment: Segment): void
  /** Raises the limit. */
  hold(bytes: number): void
  /** An empty chain. */
  begin(): Chain
  /** Adds items of a batch to the end of a chain; `runs` are all of the batch's rows. False: the chain is gone. */
  add(chain: Chain, runs: readonly Run[], items: Items): boolean
  /** A chain's items, in memory of their own, in the order in which they came; null when it is gone. */
  read(chain: Chain): RawItem[] | null
}

export function spanMemory({ limit: own = 0, itemAt, segmentBytes = SEGMENT_BYTES }: SpanMemoryOptions): SpanMemory {
  let limit = own
  /** By number, and so by age. */
  const segments = new Map<number, Segment>()
  const free: Segment[] = []
  let filling: Segment | undefined
  let begun = 0
  /** Chains that began in an earlier segment are gone. */
  let oldest = 0

  function take(size: number): Segment {
    if (!filling || !hasRoom(filling, size)) filling = next(size)
    filling.users++
    return filling
  }

  function next(size: number): Segment {
    trim()
    const { bytes, place, starts, back } =
      (size <= segmentBytes && free.pop()) || fresh(size > segmentBytes ? Buffer.allocUnsafeSlow(size) : takeMemory(segmentBytes))
    const segment = { number: begun++, bytes, place, length: 0, count: 0, starts, back, users: 0 }
    segments.set(segment.number, segment)
    return segment
  }

  function trim(): void {
    const unused = [...segments.values()].filter(({ users }) => users === 0)
    let kept = unused.reduce((sum, { bytes }) => sum + bytes.length, 0)
    for (const segment of unused) {
      if (kept <= limit && segment.number >= oldest) break
      kept -= segment.bytes.length
      drop(segment)
    }
  }

  function drop(segment: Segment): void {
    segments.delete(segment.number)
    oldest = Math.max(oldest, segment.number + 1)
    // One that was made for a large row is not kept.
    if (segment.bytes.length === segmentBytes) free.push(segment)
  }

  const lives = ({ since }: Chain) => since >= oldest

  function add(chain: Chain, runs: readonly Run[], { order, from, to }: Items): boolean {
    let n = from
    for (let r = 0; r < runs.length && n < to; r++) {
      const run = runs[r]!
      if (order[n]! >= run.to) continue
      const { number, back } = run.segment
      chain.since = Math.min(chain.since, number)
      if (!lives(chain)) return false
      for (; n < to && order[n]! < run.to; n++) {
        const at = run.row + order[n]! - run.from
        const position = number * SEGMENT_ROWS + at
        back[at] = chain.last === NONE ? 0 : position - chain.last
        chain.last = position
      }
    }
    return true
  }

  function read(chain: Chain): RawItem[] | null {
    if (!lives(chain)) return null
    const items: RawItem[] = []
    for (let position = chain.last; position !== NONE;) {
      const at = position % SEGMENT_ROWS
      const { bytes, starts, back } = segments.get((position - at) / SEGMENT_ROWS)!
      items.push(itemAt(bytes, starts[at]!))
      position = back[at] === 0 ? NONE : position - back[at]!
    }
    return items.reverse()
  }

  return {
    take,
    letGo: (segment) => void segment.users--,
    hold: (bytes) => void (limit += bytes),
    begin: () => ({ since: begun, last: NONE }),
    add,
    read,
  }
}

/** For a row of so many bytes. */
export const hasRoom = ({ bytes, length, count }: Segment, size: number): boolean => length + size <= bytes.length && count < SEGMENT_ROWS

const fresh = (bytes: Buffer): Pick<Segment, 'bytes' | 'place' | 'starts' | 'back'> => ({
  bytes,
  place: placeInShared(bytes),
  starts: new Int32Array(SEGMENT_ROWS),
  back: new Int32Array(SEGMENT_ROWS),
})

const NONE = -1
