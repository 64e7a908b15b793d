// A rollout's outline: where its calls, tools and rewards stand in the span tree and what they were,
// enough to credit it again when a score comes after its spans have expired.

import { toolKey } from '../credit/air.ts'
import { AS_GIVEN, type RewardOptions } from '../data/rewards.ts'
import type { Call, Reward, Rollout, Tool } from '../data/rollout.ts'
import type { SpanTree } from '../data/tree.ts'

export interface Outline {
  /** Nanoseconds since the epoch, in digits; times below are microseconds since then. */
  readonly origin: string
  /** Spans that lead from a root to a call, a tool or a reward. `parent` is an index here, -1 for a root. */
  readonly nodes: { readonly parent: readonly number[]; readonly start: readonly number[]; readonly end: readonly number[] }
  readonly calls: readonly {
    node: number
    span_id: string
    agent: string
    judged: boolean
    step: number | null
    /** A policy answered it, trained or not. */
    taken: boolean
    times?: Times
  }[]
  readonly tools: readonly {
    node: number
    name: string
    /** What makes two tool calls the same one. */
    key: string
    inferred: boolean
    requested_by: string
    air_class: Tool['air_class'] | null
    air_rule?: string | undefined
    judged: boolean
    times?: Times
  }[]
  /** Most that AIR gives, as a share of the reward range. */
  readonly air_weight: number
  readonly rewards: readonly OutlinedReward[]
  readonly reward_options: RewardOptions
}

export interface OutlinedReward extends Pick<Reward, 'reward_id' | 'id' | 'source' | 'primary' | 'override' | 'sequence_id'> {
  readonly node: number
  /** -1 for the whole rollout, null where it names nothing. */
  readonly target: number | null
  readonly times: Times
  readonly values: Readonly<Record<string, number | null>>
}

/** Nanoseconds since the epoch, in digits: beginning and end of what has no span of its own. */
type Times = readonly [start: string, end: string]

export function outline(rollout: Rollout): Outline {
  const { tree, calls, tools, rewards, transitions, rejects, air_weight = 0, reward_options = AS_GIVEN } = rollout
  const places = [...calls, ...tools, ...rewards].map(({ node }) => node).concat(rewards.map(({ target_node = -1 }) => target_node))
  const kept = withAncestors(tree, places)
  const index = new Map(kept.map((node, i) => [node, i]))
  const at = (node: number) => index.get(node) ?? -1
  const end = lastingEnds(tree)
  const steps = new Map(transitions.map(({ span_id, step }) => [span_id, step]))
  const untrained = new Set(rejects.flatMap(({ span_id, policy }) => (policy === '' ? [] : [span_id])))
  return {
    origin: String(tree.origin),
    nodes: {
      parent: kept.map((node) => at(tree.parent[node]!)),
      start: kept.map((node) => tree.start[node]!),
      end: kept.map((node) => end[node]!),
    },
    calls: calls.map((call) => ({
      node: at(call.node),
      span_id: call.span_id,
      agent: call.agent ?? '',
      judged: call.judged,
      step: steps.get(call.span_id) ?? null,
      taken: !call.judged && (steps.has(call.span_id) || untrained.has(call.span_id)),
      ...(call.node === -1 ? { times: timesOf(call) } : {}),
    })),
    tools: tools.map((tool) => ({
      node: at(tool.node),
      name: tool.name ?? '',
      key: toolKey(tool),
      inferred: tool.inferred,
      requested_by: tool.requested_by,
      air_class: tool.air_class ?? null,
      air_rule: tool.air_rule,
      judged: tool.judged,
      ...(tool.node === -1 ? { times: timesOf(tool) } : {}),
    })),
    air_weight,
    rewards: rewards.filter(isPlaced).map((reward) => outlinedReward(reward, at)),
    reward_options,
  }
}

/** What names a span or response that is not there says nothing. */
const isPlaced = ({ target, target_node }: Reward): boolean => target_node !== undefined || !(target?.span_id || target?.response_id)

/** @param at where a node of the rollout's tree stands in the outline; -1 for one that is not there */
export function outlinedReward(reward: Reward, at: (node: number) => number): OutlinedReward {
  const { node, target, target_node, reward_id, id, source, primary, override, sequence_id, dimensions } = reward
  return {
    node: at(node),
    target: target === undefined ? null : target_node === undefined ? -1 : at(target_node),
    times: timesOf(reward),
    values: Object.fromEntries(dimensions.map(({ name, value }) => [name, value])),
    ...{ reward_id, id, source, primary, override, sequence_id },
  }
}

const timesOf = ({ start_time, end_time }: Pick<Reward, 'start_time' | 'end_time'>): Times => [String(start_time), String(end_time)]

/** What a rollout is credited by, as its outline kept it. What credit does not look at is not there. */
export interface Restored {
  readonly tree: SpanTree
  readonly calls: readonly (Call & { readonly step: number | null; readonly taken: boolean })[]
  readonly tools: readonly Tool[]
  readonly rewards: readonly Reward[]
}

export function restore({ origin, nodes, calls, tools, rewards }: Outline): Restored {
  const count = nodes.parent.length
  const tree: SpanTree = {
    count,
    origin: BigInt(origin),
    parent: Int32Array.from(nodes.parent),
    start: Float64Array.from(nodes.start),
    end: Float64Array.from(nodes.end),
    orphans: 0,
    cycles: 0,
  }
  const absolute = (node: number, times: Float64Array) => (node === -1 ? 0n : tree.origin + BigInt(Math.round(times[node]! * 1_000)))
  const start = (node: number, times?: Times) => (times ? BigInt(times[0]) : absolute(node, tree.start))
  const end = (node: number, times?: Times) => (times ? BigInt(times[1]) : absolute(node, tree.end))
  // Field by field: spreading objects into one is several times slower, and ten thousand outlines may be restored at once.
  return {
    tree,
    calls: calls.map(({ node, times, span_id, agent, judged, step, taken }) => ({
      span_id,
      parent_span_id: '',
      trace_id: '',
      start_time: start(node, times),
      end_time: end(node, times),
      dialect: '',
      scope: '',
      node,
      judged,
      operation: '',
      model: '',
      prompt: [],
      flags: [],
      merged_span_ids: [],
      agent,
      step,
      taken,
    })),
    // The key stands for name and arguments, which nobody needs any more.
    tools: tools.map(({ node, times, key, inferred, requested_by, judged, air_class }): Tool => {
      const tool: Writable<Tool> = {
        span_id: '',
        parent_span_id: '',
        trace_id: '',
        start_time: start(node, times),
        end_time: end(node, times),
        dialect: '',
        scope: '',
        node,
        judged,
        name: key,
        verdict: { status: 'unknown', evidence: 'outline' },
        inferred,
        requested_by,
      }
      if (air_class) tool.air_class = air_class
      return tool
    }),
    rewards: rewards.map(({ node, target, times, values, reward_id, source, id, primary, override, sequence_id }): Reward => {
      const reward: Writable<Reward> = {
        span_id: '',
        parent_span_id: '',
        trace_id: '',
        start_time: start(node, times),
        end_time: end(node, times),
        dialect: '',
        scope: '',
        node,
        judged: false,
        reward_id,
        source,
        given_at: Number(BigInt(times[1]) / 1_000_000n),
        dimensions: Object.keys(values).map((name) => ({ name, value: values[name]! })),
      }
      if (id !== undefined) reward.id = id
      if (primary !== undefined) reward.primary = primary
      if (override !== undefined) reward.override = override
      if (sequence_id !== undefined) reward.sequence_id = sequence_id
      if (target !== null) reward.target = {}
      if (target !== null && target !== -1) reward.target_node = target
      return reward
    }),
  }
}

type Writable<T> = { -readonly [name in keyof T]: T[name] }

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
