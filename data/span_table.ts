// The spans of one rollout as words in one array: a run may have 100,000, and of most nobody wants to know more than where they stand.
// Each id stands in it once.

import { head, readHead } from './head.ts'
import { knownTrace } from './known_traces.ts'
import type { Span } from './span.ts'

/** Words of a span. Ids and times take two, the higher first. */
export const WORD = { trace: 0, id: 1, parent: 3, start: 5, end: 7 } as const
export const STRIDE = 9

export interface SpanTable {
  readonly count: number
  /** STRIDE words a span, in the order in which they came. `trace` is a place in `traces`; a parent of zeros is none. */
  readonly words: Uint32Array
  readonly traces: readonly string[]
  /** Takes a span, or bytes of one that scan() accepted. The number of spans before it; -1 where its id was there. */
  add(span: Span | Buffer): number
  /** Which span has this id, -1 for none. */
  find(trace: number, high: number, low: number): number
  /** The same of an id as text. */
  findText(trace_id: string, span_id: string): number
  /** As text. */
  idOf(i: number): string
  /** By start time, of a span without one by its end: their numbers. Those of one moment keep their order. */
  byTime(): Uint32Array
}

const SMALLEST = 64
/** Whoever can choose ids must not be able to choose which of them meet. */
const SEED = (Math.random() * 2 ** 32) | 0

export function spanTable(): SpanTable {
  let words = new Uint32Array(SMALLEST * STRIDE)
  let count = 0
  const traces: string[] = []
  const places = new Map<string, number>()
  /** By hash, and where that place is taken in one that follows: a span's number and 1. Half of them are free. */
  let slots = new Uint32Array(2 * SMALLEST)

  function add(span: Span | Buffer): number {
    if (count * STRIDE === words.length) grow()
    const at = count * STRIDE
    if (Buffer.isBuffer(span)) putBytes(at, span)
    else putSpan(at, span)
    const slot = slotOf(words[at + WORD.trace]!, words[at + WORD.id]!, words[at + WORD.id + 1]!)
    if (slots[slot] !== 0) return -1
    slots[slot] = ++count
    return count - 1
  }

  function putBytes(at: number, payload: Buffer): void {
    readHead(payload)
    words[at + WORD.trace] = placeOf(knownTrace(payload, head.trace_id))
    putId(at + WORD.id, payload, head.span_id)
    putId(at + WORD.parent, payload, head.parent_span_id)
    putTime(at + WORD.start, payload, head.start_time)
    putTime(at + WORD.end, payload, head.end_time)
  }

  function putId(at: number, payload: Buffer, offset: number): void {
    words[at] = offset === 0 ? 0 : payload.readUInt32BE(offset)
    words[at + 1] = offset === 0 ? 0 : payload.readUInt32BE(offset + 4)
  }

  function putTime(at: number, payload: Buffer, offset: number): void {
    words[at] = offset === 0 ? 0 : payload.readUInt32LE(offset + 4)
    words[at + 1] = offset === 0 ? 0 : payload.readUInt32LE(offset)
  }

  function putSpan(at: number, { trace_id, span_id, parent_span_id, start_time, end_time }: Span): void {
    words[at + WORD.trace] = placeOf(trace_id)
    putText(at + WORD.id, span_id)
    putText(at + WORD.parent, parent_span_id)
    putBigint(at + WORD.start, start_time)
    putBigint(at + WORD.end, end_time)
  }

  function putText(at: number, id: string): void {
    words[at] = wordOf(id, 0)
    words[at + 1] = wordOf(id, 8)
  }

  function putBigint(at: number, time: bigint): void {
    scratch.setBigUint64(0, time)
    words[at] = scratch.getUint32(0)
    words[at + 1] = scratch.getUint32(4)
  }

  /** Neighbours mostly share one. */
  let lastTrace = ''
  let lastPlace = 0

  function placeOf(trace_id: string): number {
    if (trace_id === lastTrace && count > 0) return lastPlace
    let place = places.get(trace_id)
    if (place === undefined) places.set(trace_id, (place = traces.push(trace_id) - 1))
    lastTrace = trace_id
    return (lastPlace = place)
  }

  /** Where the span with this id is, or would be. */
  function slotOf(trace: number, high: number, low: number): number {
    const mask = slots.length - 1
    let hash = Math.imul(high ^ SEED, 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 15) ^ low ^ Math.imul(trace, 0xc2b2ae35), 0x9e3779b1)
    let slot = (hash ^ (hash >>> 16)) & mask
    while (slots[slot] !== 0) {
      const at = (slots[slot]! - 1) * STRIDE
      if (words[at + WORD.id + 1] === low && words[at + WORD.id] === high && words[at + WORD.trace] === trace) break
      slot = (slot + 1) & mask
    }
    return slot
  }

  function grow(): void {
    const larger = new Uint32Array(2 * words.length)
    larger.set(words)
    words = larger
    slots = new Uint32Array(2 * slots.length)
    for (let i = 0; i < count; i++) {
      const at = i * STRIDE
      slots[slotOf(words[at + WORD.trace]!, words[at + WORD.id]!, words[at + WORD.id + 1]!)] = i + 1
    }
  }

  const find = (trace: number, high: number, low: number): number => slots[slotOf(trace, high, low)]! - 1

  function findText(trace_id: string, span_id: string): number {
    const place = places.get(trace_id)
    return place === undefined || span_id === '' ? -1 : find(place, wordOf(span_id, 0), wordOf(span_id, 8))
  }

  const idOf = (i: number): string => hex(words[i * STRIDE + WORD.id]!) + hex(words[i * STRIDE + WORD.id + 1]!)

  function byTime(): Uint32Array {
    const high = new Uint32Array(count)
    const low = new Uint32Array(count)
    const numbers = new Uint32Array(count)
    for (let i = 0; i < count; i++) {
      const start = i * STRIDE + WORD.start
      const at = words[start] === 0 && words[start + 1] === 0 ? start + WORD.end - WORD.start : start
      high[i] = words[at]!
      low[i] = words[at + 1]!
      numbers[i] = i
    }
    return radixSort(numbers, [low, high])
  }

  return {
    get count() {
      return count
    },
    get words() {
      return words
    },
    traces,
    ...{ add, find, findText, idOf, byTime },
  }
}

/** Of many the digits are longer, and so fewer: each is one pass. */
const MANY = 1 << 13

/**
 * Numbers by their words, the lowest first; those whose words are equal keep their order. Each digit is one pass over all of them; of
 * times the first digits are the same in all.
 */
function radixSort(numbers: Uint32Array, words: readonly Uint32Array[]): Uint32Array {
  const bits = numbers.length > MANY ? 16 : 8
  const first = new Uint32Array(1 << bits)
  let sorted: Uint32Array = numbers
  let others: Uint32Array = new Uint32Array(numbers.length)
  for (const word of words) {
    for (let shift = 0; shift < 32; shift += bits) {
      const digit = (number: number) => (word[number]! >>> shift) & (first.length - 1)
      first.fill(0)
      for (let i = 0; i < sorted.length; i++) first[digit(i)]!++
      if (first.includes(sorted.length)) continue
      for (let d = 0, before = 0; d < first.length; d++) {
        const those = first[d]!
        first[d] = before
        before += those
      }
      for (let i = 0; i < sorted.length; i++) others[first[digit(sorted[i]!)]!++] = sorted[i]!
      ;[sorted, others] = [others, sorted]
    }
  }
  return sorted
}

const scratch = new DataView(new ArrayBuffer(8))

/** Eight of an id's hex digits, which are lower-case; 0 where it has none. */
function wordOf(id: string, from: number): number {
  let word = 0
  for (let i = from; i < from + 8 && i < id.length; i++) {
    const digit = id.charCodeAt(i)
    word = (word << 4) | (digit <= NINE ? digit - ZERO : digit - TEN)
  }
  return word >>> 0
}

const hex = (word: number): string => word.toString(16).padStart(8, '0')

const ZERO = '0'.charCodeAt(0)
const NINE = '9'.charCodeAt(0)
const TEN = 'a'.charCodeAt(0) - 10
