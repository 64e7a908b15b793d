// A rollout's outline: where its calls, tools and rewards stand in the span tree and what they were,
// enough to credit it again when a score comes after its spans have expired.

import { toolKey } from '../credit/air.ts'
import type { Rollout, Tool } from '../data/rollout.ts'
import type { SpanTree } from '../data/tree.ts'

export interface Outline {
  /** Nanoseconds since the epoch, in digits; times below are microseconds since then. */
  readonly origin: string
  /** Spans that lead from a root to a call, a tool or a reward. `parent` is an index here, -1 for a root. */
  readonly nodes: { readonly parent: readonly number[]; readonly start: readonly number[]; readonly end: readonly number[] }
  readonly calls: readonly { node: number; span_id: string; agent: string; judged: boolean; step: number | null }[]
  readonly tools: readonly {
    node: number
    name: string
    /** What makes two tool calls the same one. */
    key: string
    inferred: boolean
    requested_by: string
    air_class: Tool['air_class'] | null
    judged: boolean
  }[]
  /** Most that AIR gives, as a share of the reward range. */
  readonly air_weight: number
  readonly rewards: readonly { node: number; target: number; reward_id: string; source: string; values: Readonly<Record<string, number>> }[]
}

export function outline({ tree, calls, tools, rewards, transitions, air_weight = 0 }: Rollout): Outline {
  const places = [...calls, ...tools, ...rewards].map(({ node }) => node).concat(rewards.map(({ target_node = -1 }) => target_node))
  const kept = withAncestors(tree, places)
  const index = new Map(kept.map((node, i) => [node, i]))
  const at = (node: number) => index.get(node) ?? -1
  const end = lastingEnds(tree)
  const steps = new Map(transitions.map(({ span_id, step }) => [span_id, step]))
  return {
    origin: String(tree.origin),
    nodes: {
      parent: kept.map((node) => at(tree.parent[node]!)),
      start: kept.map((node) => tree.start[node]!),
      end: kept.map((node) => end[node]!),
    },
    calls: calls.map(({ node, span_id, agent, judged }) => ({
      node: at(node),
      span_id,
      agent: agent ?? '',
      judged,
      step: steps.get(span_id) ?? null,
    })),
    tools: tools.map((tool) => ({
      node: at(tool.node),
      name: tool.name ?? '',
      key: toolKey(tool),
      inferred: tool.inferred,
      requested_by: tool.requested_by,
      air_class: tool.air_class ?? null,
      judged: tool.judged,
    })),
    air_weight,
    rewards: rewards.map(({ node, target_node = -1, reward_id, source, dimensions }) => ({
      node: at(node),
      target: at(target_node),
      reward_id,
      source,
      values: Object.fromEntries(dimensions.flatMap(({ name, value }) => (value === null ? [] : [[name, value]]))),
    })),
  }
}

function withAncestors({ parent }: SpanTree, places: readonly number[]): number[] {
  const kept = new Set<number>()
  for (const place of places) for (let node = place; node >= 0 && !kept.has(node); node = parent[node]!) kept.add(node)
  return [...kept].sort((a, b) => a - b)
}

/** A span without duration lasts as long as what is below it (data/causality.ts), also when that is left out here. */
function lastingEnds({ count, parent, start, end }: SpanTree): Float64Array {
  const lasting = Float64Array.from(end)
  const children = new Int32Array(count)
  for (const p of parent) if (p >= 0) children[p]!++
  const leaves = [...children.keys()].filter((node) => children[node] === 0)
  for (let node = leaves.pop(); node !== undefined; node = leaves.pop()) {
    const p = parent[node]!
    if (p < 0) continue
    if (end[p]! <= start[p]!) lasting[p] = Math.max(lasting[p]!, lasting[node]!)
    if (--children[p]! === 0) leaves.push(p)
  }
  return lasting
}
