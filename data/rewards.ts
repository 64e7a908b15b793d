// Which of a rollout's rewards is its outcome, and which belong to single calls.
//
// 1. Of each reward the primary dimension counts: the one its carrier calls primary; where no carrier does, the one
//    named in the configuration, else the only one there is. The others are parts. Several without a primary one
//    make no outcome: that is reported, not guessed.
// 2. A reward is of the whole rollout when it names the rollout, its trace or session, or a span that has every
//    policy call in it (a root, or the only call); and, naming nothing, when it comes after every policy call ended.
// 3. The last one of the whole is the outcome, and null when its value was refused (NaN, text). Last is by sequence
//    id where all carry one, else by time.
// 4. Any other reward is a step reward: of the call it names, of the last call in the span it names, or, naming
//    nothing, of the last call that ended before it in its own branch of the tree. Several on one call add up.
//    An earlier reward that names the whole is replaced by the later one.

import { parentsFirst } from './lineage.ts'
import type { Call, Problem, Reward } from './rollout.ts'
import type { SpanTree } from './tree.ts'

export interface StepReward {
  readonly intermediate: number | null
  readonly parts: Readonly<Record<string, number>>
}

export interface Outcome {
  readonly outcome: number | null
  /** Other dimensions given to the whole rollout. */
  readonly parts: Readonly<Record<string, number>>
  /** By span_id of the call. */
  readonly steps: ReadonlyMap<string, StepReward>
  readonly problems: readonly Problem[]
}

/**
 * @param calls those that a policy answered, or all of the rollout's: judged ones never count
 * @param primary name of the dimension that counts where no carrier says so
 */
export function outcome(rewards: readonly Reward[], calls: readonly Call[], tree: SpanTree, primary?: string): Outcome {
  const problems: Problem[] = []
  const policyCalls = calls.filter(({ judged }) => !judged)
  const clock = clockOf(rewards, policyCalls)
  const known = rewards.filter((reward) => isKnown(reward, problems)).sort((a, b) => clock.given(a) - clock.given(b))
  const below = callsBelow(policyCalls, tree, clock)
  const lastEnd = policyCalls.reduce((last, call) => Math.max(last, clock.ended(call)), -Infinity)
  const isWhole = (reward: Reward) =>
    reward.target === undefined
      ? clock.given(reward) >= lastEnd
      : reward.target_node === undefined || below.count[reward.target_node] === below.total

  const whole = known.filter(isWhole)
  const dimension = dimensionOf(known, whole, primary)
  const final = whole.findLast((reward) => valueOf(reward, dimension(reward)) !== undefined)
  if (!final && namesOf(whole).size > 1) {
    problems.push({
      reason: 'reward_ambiguous',
      span_id: whole[0]!.span_id,
      detail: `none of ${[...namesOf(whole)].join(', ')} is the primary one`,
    })
  }

  const stepped = known.filter((reward) => (isWhole(reward) ? final && reward !== final && reward.target === undefined : true))
  const owners = ownersOf(stepped, policyCalls, tree, clock, below)
  const stepDimension = final ? dimension : dimensionOf(known, stepped, primary)
  for (const reward of stepped) {
    if (owners.has(reward)) continue
    problems.push({ reason: 'reward_without_call', span_id: reward.span_id, detail: 'no policy call ended before it, and it names none' })
  }
  return {
    outcome: final ? (valueOf(final, dimension(final)) ?? null) : null,
    parts: Object.assign(
      {},
      ...whole.filter((reward) => !owners.has(reward)).map((reward) => partsOf(reward, dimension(reward))),
    ) as Record<string, number>,
    steps: addUp(stepped, owners, stepDimension),
    problems,
  }
}

/** A reward may name a span or response that is not, or not yet, in the rollout. */
function isKnown({ target, target_node, span_id }: Reward, problems: Problem[]): boolean {
  const named = target?.response_id ?? target?.span_id
  if (!named || target_node !== undefined) return true
  problems.push({ reason: 'reward_target_unknown', span_id, detail: `it is about ${named}, which is not in this rollout` })
  return false
}

interface Clock {
  given(reward: Reward): number
  ended(call: Call): number
}

/** Sequence ids order what clocks of several machines cannot, if everything has one. */
function clockOf(rewards: readonly Reward[], calls: readonly Call[]): Clock {
  const places = [...rewards, ...calls]
  if (places.every(({ sequence_id }) => sequence_id !== undefined)) return { given: (r) => r.sequence_id!, ended: (c) => c.sequence_id! }
  const zero = places[0]?.end_time ?? 0n
  return { given: (r) => Number(r.end_time - zero), ended: (c) => Number(c.end_time - zero) }
}

type DimensionOf = (reward: Reward) => string | undefined

/** @param scope the rewards among which one dimension may be the only one */
function dimensionOf(all: readonly Reward[], scope: readonly Reward[], configured: string | undefined): DimensionOf {
  if (all.some(({ primary }) => primary !== undefined)) return ({ primary }) => primary
  const names = namesOf(scope)
  const name = configured ?? (names.size === 1 ? [...names][0] : undefined)
  return () => name
}

const namesOf = (rewards: readonly Reward[]): Set<string> =>
  new Set(rewards.flatMap(({ dimensions }) => dimensions.map(({ name }) => name)))

const valueOf = (reward: Reward, name: string | undefined): number | null | undefined =>
  reward.dimensions.find((dimension) => dimension.name === name)?.value

function partsOf(reward: Reward, primary: string | undefined): Record<string, number> {
  const parts = reward.dimensions.filter(({ name, value }) => name !== primary && value !== null)
  return Object.fromEntries(parts.map(({ name, value }) => [name, value!]))
}

function addUp(rewards: readonly Reward[], owners: ReadonlyMap<Reward, Call>, dimension: DimensionOf): Map<string, StepReward> {
  const steps = new Map<string, StepReward>()
  for (const reward of rewards) {
    const owner = owners.get(reward)
    if (!owner) continue
    const { intermediate, parts } = steps.get(owner.span_id) ?? { intermediate: null, parts: {} }
    const value = valueOf(reward, dimension(reward)) ?? null
    steps.set(owner.span_id, {
      intermediate: value === null ? intermediate : (intermediate ?? 0) + value,
      parts: { ...parts, ...partsOf(reward, dimension(reward)) },
    })
  }
  return steps
}

interface Below {
  /** By node: policy calls in its subtree, itself included, and the one that ended last. */
  readonly count: Int32Array
  readonly last: readonly (Call | undefined)[]
  readonly total: number
}

function callsBelow(calls: readonly Call[], tree: SpanTree, clock: Clock): Below {
  const count = new Int32Array(tree.count)
  const last = new Array<Call | undefined>(tree.count)
  const later = (a: Call | undefined, b: Call | undefined) => (!a || (b && clock.ended(b) > clock.ended(a)) ? b : a)
  const placed = calls.filter(({ node }) => node !== -1)
  for (const call of placed) {
    count[call.node]!++
    last[call.node] = call
  }
  for (const node of parentsFirst(tree).reverse()) {
    const parent = tree.parent[node]!
    if (parent === -1 || count[node] === 0) continue
    count[parent]! += count[node]!
    last[parent] = later(last[parent], last[node])
  }
  return { count, last, total: placed.length }
}

function ownersOf(rewards: readonly Reward[], calls: readonly Call[], tree: SpanTree, clock: Clock, below: Below): Map<Reward, Call> {
  const owners = new Map<Reward, Call>()
  const byNode = new Map(calls.map((call) => [call.node, call]))
  for (const reward of rewards) {
    const { target_node } = reward
    const owner = target_node === undefined ? undefined : (byNode.get(target_node) ?? below.last[target_node])
    if (owner) owners.set(reward, owner)
  }
  const unnamed = rewards.filter(({ target }) => target === undefined)
  for (const [reward, call] of precedingCalls(unnamed, calls, tree, clock)) owners.set(reward, call)
  return owners
}

/**
 * For each reward, in time order, the last call that ended before it in the smallest subtree around it that has
 * one. One sweep through time: a call that ends becomes the latest of every node above it.
 */
function precedingCalls(rewards: readonly Reward[], calls: readonly Call[], tree: SpanTree, clock: Clock): Map<Reward, Call> {
  const found = new Map<Reward, Call>()
  if (rewards.length === 0) return found
  const up = watched(rewards, tree)
  const latest = new Array<Call | undefined>(tree.count)
  const byEnd = [...calls].sort((a, b) => clock.ended(a) - clock.ended(b))
  let anywhere: Call | undefined
  let next = 0
  for (const reward of rewards) {
    for (; next < byEnd.length && clock.ended(byEnd[next]!) <= clock.given(reward); next++) {
      anywhere = byEnd[next]!
      for (let node = above(up, anywhere.node); node !== -1; node = above(up, tree.parent[node]!)) latest[node] = anywhere
    }
    let node = above(up, reward.node)
    while (node !== -1 && !latest[node]) node = above(up, tree.parent[node]!)
    const call = node === -1 ? anywhere : latest[node]
    if (call) found.set(reward, call)
  }
  return found
}

const above = (up: Int32Array, node: number): number => (node === -1 ? -1 : up[node]!)

/** By node: itself or the nearest node above it that has a reward below; only those need to know their latest call. */
function watched(rewards: readonly Reward[], tree: SpanTree): Int32Array {
  const up = new Int32Array(tree.count).fill(-1)
  for (const { node } of rewards) for (let n = node; n !== -1 && up[n] === -1; n = tree.parent[n]!) up[n] = n
  for (const node of parentsFirst(tree)) if (up[node] === -1) up[node] = above(up, tree.parent[node]!)
  return up
}
