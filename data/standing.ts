// Where rewards stand among a rollout's policy calls: which are of the whole, and which call each other one is given to.

import { causalityOf, lastBefore } from './causality.ts'
import { parentsFirst } from './lineage.ts'
import { place } from './place.ts'
import type { Moment, Reward } from './rollout.ts'
import type { SpanTree } from './tree.ts'

/** What of a reward counts here. */
export type GivenReward = Moment & Pick<Reward, 'id' | 'source' | 'primary' | 'override' | 'target' | 'target_node' | 'dimensions'>

/** It says so of any one of them, whatever others there are. */
export interface Standing<R extends GivenReward = GivenReward> {
  /** When it was given: order is all that counts. */
  at(reward: R): number
  isWhole(reward: R): boolean
  /** What names the call that each of them, in order, is given to where it is no outcome; nothing for one that no call led to. */
  owners(rewards: readonly R[]): ReadonlyMap<GivenReward, string>
}

/** In a span tree; calls are named by their span_id. */
export function standing(rewards: readonly GivenReward[], calls: readonly Moment[], tree: SpanTree): Standing {
  const policyCalls = calls.filter(({ judged }) => !judged)
  const clock = clockOf(rewards, policyCalls, tree)
  let counted: Below | undefined
  const below = () => (counted ??= callsBelow(policyCalls, tree, clock))
  const lastEnd = policyCalls.reduce((last, call) => Math.max(last, clock.ended(call)), -Infinity)
  return {
    at: clock.given,
    isWhole: (reward) =>
      reward.target === undefined
        ? clock.given(reward) >= lastEnd
        : reward.target_node === undefined || below().count[reward.target_node] === below().total,
    owners: (some) => ownersOf(some, policyCalls, tree, clock, below),
  }
}

interface Clock {
  given(reward: GivenReward): number
  ended(call: Moment): number
}

/** Sequence ids order what clocks of several machines cannot, if everything has one. */
function clockOf(rewards: readonly GivenReward[], calls: readonly Moment[], tree: SpanTree): Clock {
  const isNumbered = ({ sequence_id }: Moment) => sequence_id !== undefined
  const sequenced = rewards.every(isNumbered) && calls.every(isNumbered)
  const time = (place: Moment) =>
    sequenced ? place.sequence_id! : place.node === -1 ? Number(place.end_time - tree.origin) / 1_000 : tree.end[place.node]!
  return { given: time, ended: time }
}

interface Below {
  /** By node: policy calls in its subtree, itself included, and the one that ended last. */
  readonly count: Int32Array
  readonly last: readonly (Moment | undefined)[]
  readonly total: number
}

function callsBelow(calls: readonly Moment[], tree: SpanTree, clock: Clock): Below {
  const count = new Int32Array(tree.count)
  const last = new Array<Moment | undefined>(tree.count)
  const later = (a: Moment | undefined, b: Moment | undefined) => (!a || (b && clock.ended(b) > clock.ended(a)) ? b : a)
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

/** The call that each step reward is given to; none for one that no call led to. */
function ownersOf(
  rewards: readonly GivenReward[],
  calls: readonly Moment[],
  tree: SpanTree,
  clock: Clock,
  below: () => Below,
): Map<GivenReward, string> {
  const owners = new Map<GivenReward, string>()
  if (rewards.length === 0) return owners
  const byNode = new Map(calls.map((call) => [call.node, call]))
  for (const reward of rewards) {
    const { target_node } = reward
    const owner = target_node === undefined ? undefined : (byNode.get(target_node) ?? below().last[target_node])
    if (owner) owners.set(reward, owner.span_id)
  }
  const unnamed = rewards.filter(({ target }) => target === undefined)
  if (unnamed.length > 0) for (const [reward, call] of leadingCalls(unnamed, calls, tree, clock)) owners.set(reward, call.span_id)
  return owners
}

/** By the span tree, so that no branch takes its sibling's rewards; where the tree is silent, as for a reward in a trace of its own, by time. */
function leadingCalls(rewards: readonly GivenReward[], calls: readonly Moment[], tree: SpanTree, clock: Clock): Map<GivenReward, Moment> {
  const { tree: whole, nodes } = place(tree, [...calls, ...rewards])
  const led = lastBefore(causalityOf(whole), nodes.slice(0, calls.length))
  const callAt = new Map(calls.map((call, i) => [nodes[i]!, call]))
  const byEnd = [...calls].sort((a, b) => clock.ended(a) - clock.ended(b))
  const found = new Map<GivenReward, Moment>()
  let ended = 0
  for (const [i, reward] of rewards.entries()) {
    while (ended < byEnd.length && clock.ended(byEnd[ended]!) <= clock.given(reward)) ended++
    const call = callAt.get(led[nodes[calls.length + i]!]!) ?? byEnd[ended - 1]
    if (call) found.set(reward, call)
  }
  return found
}
