// What the items of a rollout say of it as a whole, noted as they pass by: nothing of an item is kept but that.

import { EVALUATION } from './evaluation.ts'
import { head, readHead } from './head.ts'
import type { Stranger } from './item_reader.ts'
import { knownTrace } from './known_traces.ts'
import { isEnd, type End, type Rollout } from './rollout.ts'
import { factsTaker, type Facts } from './routing.ts'
import type { Attributes, Item, LogRecord, Span, Value } from './span.ts'
import { sessionOf, textOf } from './values.ts'

/** The log event that ends a rollout; its attribute `leyden.rollout.status` (or `status`) says how. */
export const END_EVENT = 'leyden.rollout.end'

/** Far more than any run has; it bounds what one that repeats an attribute with ever new values costs. */
const MAX_KEYS = 100_000

export interface Notes extends Facts, Pick<Rollout, 'status' | 'complete' | 'started_at' | 'ended_at' | 'spans' | 'trace_ids'> {
  /** Values of the session and of the attributes that were to be noted. */
  readonly keys: Keys
}

/** Names and values, each pair once. */
export interface Keys {
  add(name: string, value: string | undefined): void
  list(): [string, string][]
}

export interface NoteTaker {
  note(item: Item | Stranger): void
  notes(): Notes
}

/** @param joinKeys attributes by whose value a reward may name the rollout */
export function noteTaker(session: string, joinKeys: readonly string[]): NoteTaker {
  const keys = distinctKeys()
  const facts = factsTaker()
  const traces = new Set<string>()
  let spans = 0
  let trace = ''
  // Each as two words, the higher first: no bigint is made of what is only compared.
  let [startedHigh, startedLow] = [0, 0]
  let [endedHigh, endedLow] = [0, 0]
  let roots = 0
  let failed = false
  let end: LogRecord | undefined
  let resource: Attributes | undefined
  let itsSession: string | undefined

  function note(item: Item | Stranger): void {
    spans++
    if (item.signal === 'traces') return noteStranger(item)
    noteTrace(item.trace_id)
    facts.take(item)
    if (item.signal === 'span') noteSpan(item)
    else noteRecord(item)
  }

  function noteStranger({ payload, resource: { attributes } }: Stranger): void {
    readHead(payload)
    noteTrace(knownTrace(payload, head.trace_id))
    facts.takeResource(attributes)
    const { start_time, end_time } = head
    if (start_time !== 0) noteStart(payload.readUInt32LE(start_time + 4), payload.readUInt32LE(start_time))
    const endHigh = end_time === 0 ? 0 : payload.readUInt32LE(end_time + 4)
    const endLow = end_time === 0 ? 0 : payload.readUInt32LE(end_time)
    noteEnd(endHigh, endLow)
    noteKeys(attributes)
    noteRoot(head.parent_span_id === 0 || head.remote_parent, (endHigh | endLow) !== 0, head.status)
  }

  /** Neighbours mostly share one. */
  function noteTrace(trace_id: string): void {
    if (trace_id !== trace && trace_id !== '') traces.add((trace = trace_id))
  }

  function noteSpan(span: Span): void {
    notePeriod(span.start_time, span.end_time)
    noteKeys(span.resource, span.attributes)
    noteRoot(span.parent_span_id === '' || span.remote_parent, span.end_time > 0n, span.status)
  }

  function noteRoot(isRoot: boolean, hasEnded: boolean, status: number): void {
    if (!isRoot || !hasEnded) return
    roots++
    failed ||= status === 2
  }

  function noteRecord(record: LogRecord): void {
    notePeriod(record.time, record.time)
    if (record.event_name === END_EVENT) end ??= record
    // What a score names is not what the rollout says of itself.
    if (record.event_name !== EVALUATION) noteKeys(record.resource, record.attributes)
  }

  function notePeriod(from: bigint, to: bigint): void {
    times.setBigUint64(0, from)
    times.setBigUint64(8, to)
    noteStart(times.getUint32(0), times.getUint32(4))
    noteEnd(times.getUint32(8), times.getUint32(12))
  }

  function noteStart(high: number, low: number): void {
    if ((high | low) === 0) return
    const isFirst = (startedHigh | startedLow) === 0
    if (isFirst || high < startedHigh || (high === startedHigh && low < startedLow)) [startedHigh, startedLow] = [high, low]
  }

  function noteEnd(high: number, low: number): void {
    if (high > endedHigh || (high === endedHigh && low > endedLow)) [endedHigh, endedLow] = [high, low]
  }

  /** @param own attributes of the item itself */
  function noteKeys(its: Attributes, own: Attributes | undefined = undefined): void {
    // Neighbours mostly share one.
    if (its !== resource) itsSession = sessionOf(its)
    resource = its
    keys.add(session, (own && sessionOf(own)) ?? itsSession)
    for (const name of joinKeys) keys.add(name, textOf(own?.[name]) ?? textOf(its[name]))
  }

  function notes(): Notes {
    const started = bigintOf(startedHigh, startedLow)
    const ended = bigintOf(endedHigh, endedLow)
    return {
      ...facts.facts(),
      status: end ? statusOf(end) : roots === 0 ? '' : failed ? 'failed' : 'succeeded',
      complete: end !== undefined || roots > 0,
      started_at: started,
      ended_at: ended > started ? ended : started,
      spans,
      trace_ids: [...traces],
      keys,
    }
  }

  return { note, notes }
}

const times = new DataView(new ArrayBuffer(16))

const bigintOf = (high: number, low: number): bigint => (BigInt(high) << 32n) | BigInt(low)

function distinctKeys(): Keys {
  const names = new Map<string, Set<string>>()
  let count = 0
  return {
    add(name, value) {
      if (value === undefined || count === MAX_KEYS) return
      let values = names.get(name)
      if (!values) names.set(name, (values = new Set()))
      if (values.has(value)) return
      values.add(value)
      count++
    },
    list: () => [...names].flatMap(([name, values]) => [...values].map((value): [string, string] => [name, value])),
  }
}

function statusOf(end: LogRecord): End {
  const said = [end.attributes['leyden.rollout.status'], end.attributes['status'], end.body, field(end.body, 'status')]
  return said.find(isEnd) ?? 'succeeded'
}

const field = (value: Value, key: string): Value | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, Value>)[key] : undefined
