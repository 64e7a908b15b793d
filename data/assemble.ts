// Makes a rollout of the items that belong to it.

import type { Dialect } from './dialect.ts'
import { EVALUATION } from './evaluation.ts'
import { readItems } from './reading.ts'
import { outcome } from './rewards.ts'
import type { Call, Rollout, Status } from './rollout.ts'
import { factsOf, splitKey } from './routing.ts'
import type { Attributes, Item, LogRecord, Span, Value } from './span.ts'
import { RESPONSE, SESSION } from './stray_rewards.ts'
import { sessionOf, textOf } from './values.ts'

/** The log event that ends a rollout; its attribute `leyden.rollout.status` (or `status`) says how. */
export const END_EVENT = 'leyden.rollout.end'

export interface Closing {
  readonly key: string
  readonly closed_by: Rollout['closed_by']
  readonly revision: number
  /** Newest arrival among the items, ms since the epoch. */
  readonly covered_until: number
  /** Attributes by whose value a reward may name the rollout. */
  readonly join_keys?: readonly string[]
}

/**
 * @param items distinct spans and log records, in any order
 * @returns the rollout as it enters its pipeline: calls, tools and rewards read, nothing credited yet
 */
export function assemble(items: readonly Item[], dialects: readonly Dialect[], closing: Closing): Rollout {
  const read = readItems(items, dialects)
  const scored = outcome(read.rewards, read.calls, read.tree)
  const spans = items.filter((item): item is Span => item.signal === 'span')
  const end = items.find((item): item is LogRecord => item.signal === 'log' && item.event_name === END_EVENT)
  const roots = spans.filter((span) => (span.parent_span_id === '' || span.remote_parent) && span.end_time > 0n)
  return {
    tenant: '',
    ...splitKey(closing.key),
    ...factsOf(items),
    status: end ? statusOf(end) : rootStatus(roots),
    closed_by: closing.closed_by,
    complete: end !== undefined || roots.length > 0,
    revision: closing.revision,
    ...period(items),
    spans: items.length,
    covered_until: closing.covered_until,
    trace_ids: [...new Set(items.map((item) => item.trace_id))].filter(Boolean),
    keys: keysIn(items, read.calls, closing.join_keys ?? []),
    tree: read.tree,
    calls: read.calls,
    tools: read.tools,
    rewards: read.rewards,
    problems: [...read.problems, ...scored.problems],
    air_mode: '',
    credit: null,
    outcome: scored.outcome,
    transitions: [],
    rejects: [],
  }
}

/** Far more than any run has; it bounds what one that repeats an attribute with ever new values costs. */
const MAX_KEYS = 100_000

function keysIn(items: readonly Item[], calls: readonly Call[], joinKeys: readonly string[]): [string, string][] {
  const keys = new Map<string, [string, string]>()
  const add = (name: string, value: string | undefined) => {
    if (value !== undefined && keys.size < MAX_KEYS) keys.set(`${name}\u0000${value}`, [name, value])
  }
  for (const { response_id, session } of calls) {
    add(RESPONSE, response_id)
    add(SESSION, session)
  }
  let resource: Attributes | undefined
  let session: string | undefined
  for (const item of items) {
    // What a score names is not what the rollout says of itself.
    if (item.signal === 'log' && item.event_name === EVALUATION) continue
    // Neighbours mostly share one.
    if (item.resource !== resource) session = sessionOf(item.resource)
    resource = item.resource
    add(SESSION, sessionOf(item.attributes) ?? session)
    for (const name of joinKeys) add(name, textOf(item.attributes[name]) ?? textOf(item.resource[name]))
  }
  return [...keys.values()]
}

const STATUSES: readonly string[] = ['succeeded', 'failed', 'cancelled', 'timeout', 'limit']

function statusOf(end: LogRecord): Status {
  const said = [end.attributes['leyden.rollout.status'], end.attributes['status'], end.body, field(end.body, 'status')]
  return (said.find((value) => STATUSES.includes(value as string)) ?? 'succeeded') as Status
}

const field = (value: Value, key: string): Value | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, Value>)[key] : undefined

function rootStatus(roots: readonly Span[]): Status {
  if (roots.length === 0) return ''
  return roots.some((span) => span.status === 2) ? 'failed' : 'succeeded'
}

function period(items: readonly Item[]): { started_at: bigint; ended_at: bigint } {
  let started_at = 0n
  let ended_at = 0n
  for (const item of items) {
    const start = item.signal === 'span' ? item.start_time : item.time
    const end = item.signal === 'span' ? item.end_time : item.time
    if (start > 0n && (started_at === 0n || start < started_at)) started_at = start
    if (end > ended_at) ended_at = end
  }
  return { started_at, ended_at: ended_at > started_at ? ended_at : started_at }
}
