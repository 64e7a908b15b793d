// What the items of a rollout say of it as a whole, noted as they pass by: nothing of an item is kept but that.

import { EVALUATION } from './evaluation.ts'
import { head, readHead } from './head.ts'
import type { Stranger } from './item_reader.ts'
import { knownTrace } from './known_traces.ts'
import type { Rollout, Status } from './rollout.ts'
import { factsTaker, type Facts } from './routing.ts'
import type { Attributes, Item, LogRecord, Span, Value } from './span.ts'
import { sessionOf, textOf } from './values.ts'

/** The log event that ends a rollout; its attribute `leyden.rollout.status` (or `status`) says how. */
export const END_EVENT = 'leyden.rollout.end'

/** Far more than any run has; it bounds what one that repeats an attribute with ever new values costs. */
const MAX_KEYS = 100_000
const STATUSES: readonly string[] = ['succeeded', 'failed', 'cancelled', 'timeout', 'limit']

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
  let started = 0n
  let ended = 0n
  let roots = 0
  let failed = false
  let end: LogRecord | undefined
  let resource: Attributes | undefined
  let itsSession: string | undefined

  function note(item: Item | Stranger): void {
    spans++
    if (item.signal === 'traces') return noteStranger(item)
    if (item.trace_id !== '') traces.add(item.trace_id)
    facts.take(item)
    if (item.signal === 'span') noteSpan(item)
    else noteRecord(item)
  }

  function noteStranger({ payload, resource: { attributes } }: Stranger): void {
    readHead(payload)
    traces.add(knownTrace(payload, head.trace_id))
    facts.takeResource(attributes)
    notePeriod(timeAt(payload, head.start_time), timeAt(payload, head.end_time))
    noteKeys(attributes)
    noteRoot(head.parent_span_id === 0 || head.remote_parent, timeAt(payload, head.end_time), head.status)
  }

  function noteSpan(span: Span): void {
    notePeriod(span.start_time, span.end_time)
    noteKeys(span.resource, span.attributes)
    noteRoot(span.parent_span_id === '' || span.remote_parent, span.end_time, span.status)
  }

  function noteRoot(isRoot: boolean, end_time: bigint, status: number): void {
    if (!isRoot || end_time === 0n) return
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
    if (from > 0n && (started === 0n || from < started)) started = from
    if (to > ended) ended = to
  }

  /** @param own attributes of the item itself */
  function noteKeys(its: Attributes, own: Attributes | undefined = undefined): void {
    // Neighbours mostly share one.
    if (its !== resource) itsSession = sessionOf(its)
    resource = its
    keys.add(session, (own && sessionOf(own)) ?? itsSession)
    for (const name of joinKeys) keys.add(name, textOf(own?.[name]) ?? textOf(its[name]))
  }

  const notes = (): Notes => ({
    ...facts.facts(),
    status: end ? statusOf(end) : roots === 0 ? '' : failed ? 'failed' : 'succeeded',
    complete: end !== undefined || roots > 0,
    started_at: started,
    ended_at: ended > started ? ended : started,
    spans,
    trace_ids: [...traces],
    keys,
  })

  return { note, notes }
}

const timeAt = (payload: Buffer, offset: number): bigint => (offset === 0 ? 0n : payload.readBigUInt64LE(offset))

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

function statusOf(end: LogRecord): Status {
  const said = [end.attributes['leyden.rollout.status'], end.attributes['status'], end.body, field(end.body, 'status')]
  return (said.find((value) => STATUSES.includes(value as string)) ?? 'succeeded') as Status
}

const field = (value: Value, key: string): Value | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, Value>)[key] : undefined
