// The items of one rollout in order, each span once, and the place of each in the run.

import { hash } from 'node:crypto'

import type { Reading } from './dialect.ts'
import type { Stranger } from './item_reader.ts'
import type { Lineage } from './lineage.ts'
import type { Place } from './rollout.ts'
import { ROLLOUT_KEYS } from './routing.ts'
import type { Attributes, Item, LogRecord, Span, Value } from './span.ts'
import { jsonOf, numberOf } from './values.ts'

/** What is asked of a span after a dialect has read it: its place, and the few attributes that tell of it. The rest may be megabytes. */
export type Remains = Pick<
  Span,
  | 'signal'
  | 'trace_id'
  | 'span_id'
  | 'parent_span_id'
  | 'start_time'
  | 'end_time'
  | 'attributes'
  | 'dropped_attributes'
  | 'resource'
  | 'scope'
>

/** An item that some dialect understood. */
export interface Found {
  readonly item: Remains | LogRecord
  /** Position of the span among the spans; of the span in which a log record was written; -1 for none. */
  readonly node: number
  readonly dialect: string
  readonly reading: Reading
}

/** Of two records of one span the one that says more counts, in the place of the first, and takes from the other what it lacks. */
export function distinctItems(items: readonly (Item | Stranger)[]): (Item | Stranger)[] {
  const distinct: (Item | Stranger)[] = []
  const traces = new Map<string, Map<string, number>>()
  for (const item of items) {
    if (item.signal !== 'span') {
      distinct.push(item)
      continue
    }
    let places = traces.get(item.trace_id)
    if (!places) traces.set(item.trace_id, (places = new Map()))
    const place = places.get(item.span_id)
    if (place === undefined) places.set(item.span_id, distinct.push(item) - 1)
    else distinct[place] = mergeSpans(distinct[place] as Span, item)
  }
  return distinct
}

function mergeSpans(a: Span, b: Span): Span {
  const worth = (span: Span) => (span.end_time > 0n ? 1_000 : 0) + Object.keys(span.attributes).length + span.events.length
  const [rich, poor] = worth(b) > worth(a) ? [b, a] : [a, b]
  return { ...rich, attributes: { ...poor.attributes, ...rich.attributes } }
}

export const remainsOf = (span: Span): Remains => ({
  signal: 'span',
  trace_id: span.trace_id,
  span_id: span.span_id,
  parent_span_id: span.parent_span_id,
  start_time: span.start_time,
  end_time: span.end_time,
  attributes: remaining(span.attributes),
  dropped_attributes: span.dropped_attributes,
  resource: span.resource,
  scope: span.scope,
})

function remaining(attributes: Attributes): Attributes {
  let kept: Record<string, Value> | undefined
  for (const key of KEPT_KEYS) {
    const value = attributes[key]
    if (value !== undefined) (kept ??= {})[key] = value
  }
  return kept ?? NOTHING
}

export const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)

const SEQUENCE_ID = 'agentlightning.span_sequence_id'
/** Of every span. */
export const KEPT_KEYS = [SEQUENCE_ID, ...ROLLOUT_KEYS]
const NOTHING: Attributes = {}

/** @param node the item's own, or that of the span in which a record was written; -1 for none */
export function placeOf(item: Remains | LogRecord, node: number, dialect: string, { judged }: Pick<Lineage, 'judged'>): Place {
  const { trace_id, attributes, resource } = item
  const isSpan = item.signal === 'span'
  const start_time = isSpan ? item.start_time : item.time
  return {
    // A record has no id of its own: it stands below the span in which it was written.
    span_id: isSpan ? item.span_id : recordId(item),
    parent_span_id: isSpan ? item.parent_span_id : item.span_id,
    trace_id,
    start_time,
    end_time: isSpan && item.end_time > start_time ? item.end_time : start_time,
    dialect,
    scope: item.scope.name,
    node: isSpan ? node : -1,
    judged: node !== -1 && judged[node] === 1,
    sequence_id: numberOf(attributes[SEQUENCE_ID] ?? resource[SEQUENCE_ID]),
  }
}

/** The same each time the record is read, and like a span's id. */
function recordId({ trace_id, span_id, time, event_name, body, attributes }: LogRecord): string {
  const said = [trace_id, span_id, String(time), event_name, jsonOf(body), jsonOf(attributes)].join('\0')
  return hash('sha256', said).slice(0, 16)
}
