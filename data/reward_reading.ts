// Rewards as their carriers give them, at their place, with what they are about found among the spans.

import type { Dialect, RewardReading } from './dialect.ts'
import { compare, spanKey } from './items.ts'
import type { Call, Place, Problem, Reward } from './rollout.ts'
import type { Item } from './span.ts'
import { compact } from './values.ts'

interface Run {
  readonly calls: readonly Call[]
  /** By spanKey. */
  readonly nodes: ReadonlyMap<string, number>
  readonly place: (item: Item, dialect: string) => Place
  readonly problems: Problem[]
}

/** Every dialect is asked of every item: a score may stand on any span. In the order in which they were given. */
export function readRewards(items: readonly Item[], dialects: readonly Dialect[], run: Run): Reward[] {
  const carriers = dialects.filter(({ rewards }) => rewards)
  const nodeOf = targetFinder(run)
  const rewards: Reward[] = []
  for (const item of items) {
    for (const dialect of carriers) {
      for (const [i, reading] of tryRewards(item, dialect, run.problems).entries()) {
        report(reading, item, run.problems)
        if (reading.dimensions.length === 0) continue
        const place = run.place(item, dialect.name)
        rewards.push(
          compact<Reward>({
            ...reading,
            ...place,
            reward_id: `${place.trace_id}:${place.span_id}:${dialect.name}:${i}`,
            given_at: Number(place.end_time / 1_000_000n),
            target_node: nodeOf(reading.target),
          }),
        )
      }
    }
  }
  return rewards.sort((a, b) => compare(a.end_time, b.end_time))
}

function tryRewards(item: Item, dialect: Dialect, problems: Problem[]): readonly RewardReading[] {
  try {
    return dialect.rewards!(item)
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
function targetFinder({ calls, nodes }: Run): (target: RewardReading['target']) => number | undefined {
  const byResponse = new Map(calls.map(({ response_id, node }) => [response_id, node]))
  const merged = new Map(calls.flatMap(({ merged_span_ids, node }) => merged_span_ids.map((id) => [id, node] as const)))
  let anywhere: Map<string, number> | undefined
  return (target) => {
    if (!target) return undefined
    const { response_id, span_id, trace_id } = target
    const node = response_id === undefined ? undefined : byResponse.get(response_id)
    if (node !== undefined || !span_id) return node
    if (trace_id === undefined) anywhere ??= new Map([...nodes].map(([key, n]) => [key.slice(key.indexOf('\0') + 1), n]))
    return merged.get(span_id) ?? (trace_id === undefined ? anywhere!.get(span_id) : nodes.get(spanKey(trace_id, span_id)))
  }
}
