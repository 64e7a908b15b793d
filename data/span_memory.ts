// The latest spans, in the very buffers from which they are sent to be stored: what is held for open rollouts are these rows, and nothing is
// copied. A row points back at the one before it of the same chain, so a chain is two numbers. Buffers are filled one after the other; the
// oldest is the next to be written over, and with it goes every chain that began in it.

import { takeMemory } from './shared_memory.ts'
import { payloadSize, type Envelope, type RawItem, type SpanBatch } from './span_batch.ts'

export const SEGMENT_BYTES = 8 << 20
export const SEGMENT_ROWS = 10_000

export interface SpanMemoryOptions {
  /** Bytes of segments that nobody writes to or sends; those come on top. None where nothing is said. */
  readonly limit?: number
  /** What a segment holds at most, unless a single row is larger. */
  readonly segmentBytes?: number
}

/** What does not change with what is written to it. */
interface Room {
  /** The payloads, each behind its length. */
  readonly bytes: Buffer
  /** Where each row's payload begins and ends. */
  readonly starts: Int32Array
  readonly ends: Int32Array
  /** 0 for a span, 1 for a log record. */
  readonly signals: Uint8Array
  /** Which of the resources and scopes each row has. */
  readonly resourceOf: Uint16Array
  readonly scopeOf: Uint16Array
  /** How many rows before each stands its predecessor; 0: it has none. */
  readonly back: Int32Array
}

/** A buffer of rows. */
export interface Segment extends Room {
  /** Those that were begun before. */
  readonly number: number
  length: number
  count: number
  /** About so many bytes are its rows beside their payloads, where ClickHouse has them. */
  beside: number
  /** In memory of their own. */
  readonly resources: Envelope[]
  readonly scopes: Envelope[]
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

export function spanMemory({ limit: own = 0, segmentBytes = SEGMENT_BYTES }: SpanMemoryOptions = {}): SpanMemory {
  let limit = own
  /** By number, and so by age. */
  const segments = new Map<number, Segment>()
  const free: Room[] = []
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
    const room =
      (size <= segmentBytes && free.pop()) || roomOf(size > segmentBytes ? Buffer.allocUnsafeSlow(size) : takeMemory(segmentBytes))
    const segment = segmentIn(room, begun++)
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
    if (segment.bytes.length === segmentBytes) free.push(roomIn(segment))
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
      const segment = segments.get((position - at) / SEGMENT_ROWS)!
      const { back } = segment
      items.push(itemIn(segment, at))
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

/** For a row of so many bytes. The last may have as much beside its payload as it likes. */
export const hasRoom = ({ bytes, length, beside, count }: Segment, size: number): boolean =>
  length + beside + size <= bytes.length && count < SEGMENT_ROWS

/** Bytes of its rows, as far as that is known. */
export const sizeSoFar = ({ length, beside }: Segment): number => length + beside

/** What a row takes in a segment: its payload and a length. */
export const rowSize = (batch: SpanBatch, i: number): number => MOST_VARINT + payloadSize(batch, i)
const MOST_VARINT = 5

const roomOf = (bytes: Buffer): Room => ({
  bytes,
  starts: new Int32Array(SEGMENT_ROWS),
  ends: new Int32Array(SEGMENT_ROWS),
  signals: new Uint8Array(SEGMENT_ROWS),
  resourceOf: new Uint16Array(SEGMENT_ROWS),
  scopeOf: new Uint16Array(SEGMENT_ROWS),
  back: new Int32Array(SEGMENT_ROWS),
})

/** Each field by name: V8 gives an object that is spread a shape of its own, and whatever reads it is slow. */
const segmentIn = ({ bytes, starts, ends, signals, resourceOf, scopeOf, back }: Room, number: number): Segment => ({
  bytes,
  starts,
  ends,
  signals,
  resourceOf,
  scopeOf,
  back,
  number,
  length: 0,
  count: 0,
  beside: 0,
  resources: [],
  scopes: [],
  users: 0,
})

/** What is left when its rows are gone. */
const roomIn = ({ bytes, starts, ends, signals, resourceOf, scopeOf, back }: Segment): Room => {
  return { bytes, starts, ends, signals, resourceOf, scopeOf, back }
}

/** One outside of any memory, for rows of so many bytes together. */
export const loneSegment = (size: number): Segment => segmentIn(roomOf(Buffer.allocUnsafeSlow(size)), 0)

const itemIn = ({ bytes, starts, ends, signals, resources, resourceOf, scopes, scopeOf }: Segment, row: number): RawItem => ({
  signal: signals[row] === 0 ? 'traces' : 'logs',
  payload: Buffer.from(bytes.subarray(starts[row], ends[row])),
  resource: resources[resourceOf[row]!]!,
  scope: scopes[scopeOf[row]!]!,
})

const NONE = -1
