// Rewards as their carriers give them, at their place, with what they are about found among the spans.

import type { Dialect, RewardReading, Target } from './dialect.ts'
import { compare, placeOf } from './items.ts'
import type { Lineage } from './lineage.ts'
import type { Call, Place, Problem, Reward } from './rollout.ts'
import type { Item, LogRecord, Span } from './span.ts'

interface Run {
  /** Spans that may carry scores, by node. */
  readonly carriers: readonly Carrier[]
  readonly logs: readonly LogRecord[]
  readonly calls: readonly Call[]
  readonly nodeOf: (trace_id: string, span_id: string) => number
  /** In whatever trace; the last one of that id. */
  readonly nodeAnywhere: (span_id: string) => number
  readonly lineage: Lineage
  readonly problems: Problem[]
}

export interface Carrier {
  readonly span: Span
  readonly node: number
  /** Those in which it may carry scores. */
  readonly dialects: readonly Dialect[]
}

/**
 * A score may stand on any span, whatever else it is. In the order in which they were given.
 * @param dialects those in which log records may carry scores
 */
export function readRewards(run: Run, dialects: readonly Dialect[]): Reward[] {
  const rewards = run.carriers.flatMap((carrier) => rewardsOf(carrier.span, carrier.node, carrier.dialects, run))
  for (const record of run.logs) rewards.push(...rewardsOf(record, run.nodeOf(record.trace_id, record.span_id), dialects, run))
  if (rewards.length === 0) return rewards
  const target = targetFinder(run)
  const found = rewards.map((reward) => ({ ...reward, target_node: target(reward.target) }))
  return sentOnce(found.sort((a, b) => compare(a.end_time, b.end_time)))
}

const NONE: readonly Reward[] = []

/** Rewards of one item; what they are about is not looked for. */
export function rewardsOf(
  item: Item,
  node: number,
  dialects: readonly Dialect[],
  { lineage, problems }: { lineage: Pick<Lineage, 'judged'>; problems: Problem[] },
): readonly Reward[] {
  if (dialects.length === 0) return NONE
  const rewards: Reward[] = []
  for (const dialect of dialects) {
    const readings = tryRewards(item, dialect, problems)
    for (let i = 0; i < readings.length; i++) {
      const reading = readings[i]!
      report(reading, item, problems)
      if (reading.dimensions.length === 0) continue
      const place = placeOf(item, node, dialect.name, lineage)
      const reward_id = reading.id ?? `${place.trace_id}:${place.span_id}:${dialect.name}:${i}`
      rewards.push(rewardOf(reading, place, reward_id))
    }
  }
  return rewards
}

/** Field by field: an object made of two others takes a hundred times as long, and to read it is slow as well. Thousands may come late. */
function rewardOf(reading: RewardReading, place: Place, reward_id: string): Reward {
  const { dimensions, primary, problem, source, annotator, id, override, target } = reading
  const { span_id, parent_span_id, trace_id, start_time, end_time, dialect, scope, node, judged, sequence_id } = place
  return {
    span_id,
    parent_span_id,
    trace_id,
    start_time,
    end_time,
    dialect,
    scope,
    node,
    judged,
    sequence_id,
    dimensions,
    primary,
    problem,
    source,
    annotator,
    id,
    override,
    target,
    target_node: undefined,
    reward_id,
    given_at: Number(end_time / 1_000_000n),
  }
}

/** What was sent again after a lost answer is what was sent first. */
function sentOnce(inOrder: readonly Reward[]): Reward[] {
  const last = new Map<string, string>()
  return inOrder.filter(({ id, dimensions, target }) => {
    if (id === undefined) return true
    const said = JSON.stringify([dimensions, target])
    if (last.get(id) === said) return false
    last.set(id, said)
    return true
  })
}

function tryRewards(item: Item, dialect: Dialect, problems: Problem[]): readonly RewardReading[] {
  try {
    return dialect.rewards?.(item) ?? []
  } catch (error) {
    problems.push({ reason: 'unreadable_reward', span_id: item.span_id, detail: `${dialect.name}: ${(error as Error).message}` })
    return []
  }
}

function report(reading: RewardReading, { span_id }: Item, problems: Problem[]): void {
  const details = [reading.problem, ...reading.dimensions.map(({ problem }) => problem)]
  for (const detail of details) if (detail !== undefined) problems.push({ reason: 'reward_refused', span_id, detail })
}

/** A response id says which call is meant more surely than the span in which the score was written. */
function targetFinder({ calls, nodeOf, nodeAnywhere }: Run): (target: Target | undefined) => number | undefined {
  // Most rewards name neither.
  const byResponse = once(() => new Map(calls.map(({ response_id, node }) => [response_id, node])))
  const merged = once(() => new Map(calls.flatMap(({ merged_span_ids, node }) => merged_span_ids.map((id) => [id, node] as const))))
  return (target) => {
    const { response_id, span_id, trace_id } = target ?? {}
    const call = response_id === undefined ? undefined : byResponse().get(response_id)
    if (call !== undefined || !span_id) return call
    const node = merged().get(span_id) ?? (trace_id === undefined ? nodeAnywhere(span_id) : nodeOf(trace_id, span_id))
    return node === -1 ? undefined : node
  }
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: make() }).value
}
