// A rollout's outline: where its calls and tools stand in the span tree and what they were, enough to credit it again when a score
// comes after its spans have expired. It never changes; the rewards beside it do. What is usual is left out of both. Most scores do not
// need it: what they change follows from the rollout's course and from how its rewards stand to its transitions, which are in its row.

import { createHash } from 'node:crypto'

import { toolKey } from '../credit/air.ts'
import { AS_GIVEN, type RewardOptions } from '../data/rewards.ts'
import type { Course, Moment, Reward, Rollout, Tool } from '../data/rollout.ts'
import { standing, type GivenReward } from '../data/standing.ts'
import type { SpanTree } from '../data/tree.ts'

export interface Outline {
  /** Nanoseconds since the epoch, in digits; times below are microseconds since then. */
  readonly origin: string
  /** Spans that lead from a root to a call, a tool or a reward. `parent` is an index here, -1 for a root. */
  readonly nodes: { readonly parent: readonly number[]; readonly start: readonly number[]; readonly end: readonly number[] }
  readonly calls: readonly OutlinedCall[]
  readonly tools: readonly OutlinedTool[]
  /** Most that AIR gives, as a share of the reward range. */
  readonly air_weight?: number
}

interface OutlinedCall {
  readonly node: number
  readonly span_id: string
  readonly agent?: string
  readonly judged?: true
  /** Of its transition. */
  readonly step?: number
  /** A policy answered it, and it is not trained. */
  readonly untrained?: true
  readonly times?: Times
}

interface OutlinedTool extends Pick<Tool, 'air_class' | 'air_rule'> {
  readonly node: number
  readonly name: string
  /** What makes two tool calls the same one: name and arguments, or a digest of them. */
  readonly key: string
  readonly inferred: boolean
  readonly requested_by?: string
  readonly judged?: true
  readonly times?: Times
}

export interface OutlinedRewards {
  /** As the outline's. */
  readonly origin: string
  readonly given: readonly OutlinedReward[]
  readonly options?: RewardOptions
}

export interface OutlinedReward extends Pick<Reward, 'reward_id' | 'id' | 'source' | 'primary' | 'override' | 'sequence_id'> {
  /** -1 where it has no span in the outline. */
  readonly node: number
  /** -1 for the whole rollout, null where it names nothing. */
  readonly target: number | null
  readonly times: Times
  readonly values: Readonly<Record<string, number | null>>
  /** When it was given, in microseconds since `origin`, where its row has a course; so the two below. */
  readonly at?: number
  /** It is about the whole rollout. */
  readonly whole?: true
  /** Of the transition that it is given to where it is no outcome. */
  readonly step?: number
}

/** Nanoseconds since the epoch, in digits: beginning and end of what has no span of its own. */
export type Times = readonly [start: string, end: string]

export interface Outlined {
  readonly outline: Outline
  readonly rewards: OutlinedRewards
  /** Null where crediting it again takes its outline. */
  readonly course: Course | null
}

export function outline(rollout: Rollout): Outlined {
  const { tree, calls, tools, rewards, transitions, rejects, air_weight = 0, reward_options = AS_GIVEN } = rollout
  const places = [...calls, ...tools, ...rewards].map(({ node }) => node).concat(rewards.map(({ target_node = -1 }) => target_node))
  const kept = withAncestors(tree, places)
  const index = new Map(kept.map((node, i) => [node, i]))
  const at = (node: number) => index.get(node) ?? -1
  const end = lastingEnds(tree)
  const steps = new Map(transitions.map(({ span_id, step }) => [span_id, step]))
  const untrained = new Set(rejects.flatMap(({ span_id, policy }) => (policy === '' ? [] : [span_id])))
  const placed = rewards.filter(isPlaced)
  const given = placed.map((reward) => outlinedReward(reward, at))
  // What a call that is not trained was given goes to another, which only the outline tells.
  const course = (untrained.size === 0 && rollout.course) || null
  return {
    outline: {
      origin: String(tree.origin),
      nodes: {
        parent: kept.map((node) => at(tree.parent[node]!)),
        start: kept.map((node) => tree.start[node]!),
        end: kept.map((node) => end[node]!),
      },
      calls: calls.map((call) => ({
        node: at(call.node),
        span_id: call.span_id,
        ...(call.agent && { agent: call.agent }),
        ...(call.judged && { judged: true }),
        ...(steps.has(call.span_id) ? { step: steps.get(call.span_id)! } : untrained.has(call.span_id) && { untrained: true }),
        ...(call.node === -1 && { times: timesOf(call) }),
      })),
      tools: tools.map((tool) => ({
        node: at(tool.node),
        name: tool.name ?? '',
        key: shortened(toolKey(tool)),
        inferred: tool.inferred,
        ...(tool.requested_by && { requested_by: tool.requested_by }),
        ...(tool.air_class && { air_class: tool.air_class, air_rule: tool.air_rule }),
        ...(tool.judged && { judged: true }),
        ...(tool.node === -1 && { times: timesOf(tool) }),
      })),
      ...(air_weight !== 0 && { air_weight }),
    },
    rewards: {
      origin: String(tree.origin),
      given: course ? withStandings(given, placed, transitions, tree) : given,
      ...(reward_options !== AS_GIVEN && { options: reward_options }),
    },
    course,
  }
}

/** @param rewards the same as they were read, or restored @param steps all that a policy answered */
export function withStandings(
  given: readonly OutlinedReward[],
  rewards: readonly GivenReward[],
  steps: readonly { readonly step: number; readonly call: Moment }[],
  tree: SpanTree,
): OutlinedReward[] {
  if (given.length === 0 || steps.length === 0) return [...given]
  // Late rewards carry no sequence ids, so that with them order is by time.
  const calls = steps.map(({ call: { span_id, node, start_time, end_time, judged } }) => ({ span_id, node, start_time, end_time, judged }))
  const { at, isWhole, owners } = standing(rewards, calls, tree)
  const whole = rewards.map(isWhole)
  const stepped = rewards.filter(({ target }, i) => !whole[i] || target === undefined)
  const owner = owners(stepped.sort((a, b) => at(a) - at(b)))
  const stepOf = new Map(steps.map(({ step, call }) => [call.span_id, step]))
  return given.map((one, i) => {
    const step = stepOf.get(owner.get(rewards[i]!) ?? '')
    return { ...one, at: at(rewards[i]!), ...(whole[i] && { whole: true }), ...(step !== undefined && { step }) }
  })
}

/** One that came late and is about the whole rollout. Field by field, since thousands may. */
export function wholeReward(reward: Reward, { origin }: OutlinedRewards): OutlinedReward {
  const { reward_id, id, source, primary, override, sequence_id } = reward
  const at = Number(reward.end_time - BigInt(origin)) / 1_000
  return {
    node: -1,
    target: -1,
    times: timesOf(reward),
    values: valuesOf(reward),
    reward_id,
    id,
    source,
    primary,
    override,
    sequence_id,
    at,
    whole: true,
  }
}

/** A digest is shorter than most arguments. */
const SHORT = 40
const shortened = (key: string): string => (key.length <= SHORT ? key : createHash('sha1').update(key).digest('base64').slice(0, 22))

/** What names a span or response that is not there says nothing. */
const isPlaced = ({ target, target_node }: Reward): boolean => target_node !== undefined || !(target?.span_id || target?.response_id)

/** @param at where a node of the rollout's tree stands in the outline; -1 for one that is not there */
export function outlinedReward(reward: Reward, at: (node: number) => number): OutlinedReward {
  const { node, target, target_node, reward_id, id, source, primary, override, sequence_id } = reward
  return {
    node: at(node),
    target: target === undefined ? null : target_node === undefined ? -1 : at(target_node),
    times: timesOf(reward),
    values: valuesOf(reward),
    ...{ reward_id, id, source, primary, override, sequence_id },
  }
}

function timesOf({ start_time, end_time }: Pick<Reward, 'start_time' | 'end_time'>): Times {
  const start = String(start_time)
  return [start, end_time === start_time ? start : String(end_time)]
}

function valuesOf({ dimensions }: Reward): OutlinedReward['values'] {
  const values: Record<string, number | null> = {}
  for (const { name, value } of dimensions) values[name] = value
  return values
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
