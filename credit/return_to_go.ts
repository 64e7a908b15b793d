// A call gets the rewards that it could have influenced, discounted by the decisions in between:
//   G(t) = sum over rewards e that t reaches of gamma^depth(t, e) * e
// A reward of a call reaches that call and every call that happened before it; the outcome reaches all. depth is
// the longest chain of policy calls after t that the reward reaches as well, so waiting never costs and parallel
// branches do not count twice. Rewards that a call cannot have influenced would only add noise (the usual
// argument for rewards to go; here "later" is causal).
//
// In two passes over the tree. Upwards, each branch gets the length of its longest chain of calls and
// what its rewards are worth at its beginning; downwards, each call gets what comes after its branch at every fork.
// n log n, with one exception: below gamma 1, m branches of several calls each that overlap, one with the next, take m^2 steps.

import type { Causality } from '../data/causality.ts'
import type { Trajectory } from './trajectory.ts'

export function return_to_go(
  { causality, calls, steps, air, outcome }: Omit<Trajectory, 'next' | 'phi'>,
  { gamma }: { gamma: number },
): number[] {
  const { tree, forks } = causality
  const given = new Float64Array(tree.count + 1)
  const isCall = new Uint8Array(tree.count + 1)
  given[tree.count] = outcome
  for (const [i, node] of calls.entries()) {
    isCall[node] = 1
    given[node]! += steps[i]! + air[i]!
  }

  // Of each span with everything below it.
  const chain = Float64Array.from(isCall)
  const worth = given.map((value, node) => value * gamma ** isCall[node]!)
  // What follows a branch at its fork: as a child of the fork, and as the fork's own span.
  const afterChild = { chain: new Float64Array(tree.count), worth: new Float64Array(tree.count) }
  const afterOwn = { chain: new Float64Array(tree.count), worth: new Float64Array(tree.count) }
  for (let f = forks.length - 1; f >= 0; f--) {
    const fork = forks[f]!
    const chainOf = (branch: number) => (branch === fork ? isCall[branch]! : chain[branch]!)
    const worthOf = (branch: number) => (branch === fork ? 0 : worth[branch]!)
    const suffixes = suffixesOf(causality, fork, gamma, chainOf, worthOf)
    for (const [branch, follows] of suffixes.follows) {
      const after = branch === fork ? afterOwn : afterChild
      after.chain[branch] = suffixes.chain[follows]!
      after.worth[branch] = suffixes.worth[follows]!
    }
    chain[fork] = suffixes.chain[0]!
    worth[fork] = suffixes.worth[0]! + given[fork]! * gamma ** chain[fork]
  }

  // What follows each span with everything below it, to the end of the rollout.
  const beyond = new Float64Array(tree.count + 1)
  const returns = Float64Array.from(given)
  for (const fork of forks) {
    const atEnd = given[fork]! + beyond[fork]!
    for (const branch of causality.branches(fork)) {
      const after = branch === fork ? afterOwn : afterChild
      const follows = after.worth[branch]! + gamma ** after.chain[branch]! * atEnd
      if (branch !== fork) beyond[branch] = follows
      returns[branch] = branch === fork ? follows : given[branch]! + follows
    }
  }
  return calls.map((node) => returns[node]!)
}

interface Suffixes {
  /** Of the branches from position i on, in order of their beginning: the longest chain, and what they are worth before they begin. */
  readonly chain: Float64Array
  readonly worth: Float64Array
  /** Position of the first branch that happened after a branch. */
  readonly follows: ReadonlyMap<number, number>
}

function suffixesOf(
  { branches, branchesByEnd, precedes }: Causality,
  fork: number,
  gamma: number,
  chainOf: (branch: number) => number,
  worthOf: (branch: number) => number,
): Suffixes {
  const matters = (branch: number) => chainOf(branch) > 0 || worthOf(branch) !== 0
  const list = branches(fork).filter(matters)
  const byEnd = branchesByEnd(fork).filter(matters)
  const position = new Map(Array.from(list, (branch, i) => [branch, i]))
  const chain = new Float64Array(list.length + 1)
  const worth = new Float64Array(list.length + 1)
  const follows = new Map<number, number>()
  const chainTo = new Float64Array(list.length)

  /** Walks on from position i until all branches of the walk are over before the next begins: from there on the worth is known. */
  const walk = (i: number): number => {
    let total = 0
    let longest = 0
    let over = 0
    let e = firstIndex(byEnd, (branch) => !precedes(branch, list[i]!))
    for (let j = i; j < list.length; j++) {
      for (; precedes(byEnd[e]!, list[j]!); e++) {
        const p = position.get(byEnd[e]!)!
        if (p < i) continue
        over++
        longest = Math.max(longest, chainTo[p]! + chainOf(byEnd[e]!))
      }
      if (j > i && over === j - i) return total + gamma ** longest * worth[j]!
      chainTo[j] = longest
      total += gamma ** longest * worthOf(list[j]!)
    }
    return total
  }

  // Where every branch is one call, a longest chain always goes on with the one that ends first.
  const single = list.every((branch) => chainOf(branch) === 1)
  let total = 0
  let soonest = list.length
  const totals = new Float64Array(list.length + 1)
  for (let i = list.length - 1; i >= 0; i--) {
    const branch = list[i]!
    const next = firstIndex(list, (other) => precedes(branch, other))
    follows.set(branch, next)
    chain[i] = Math.max(chain[i + 1]!, chainOf(branch) + chain[next]!)
    totals[i] = total += worthOf(branch)
    soonest = Math.min(soonest, next)
    if (gamma === 1) worth[i] = total
    else if (single) worth[i] = total - totals[soonest]! + gamma * worth[soonest]!
    else worth[i] = walk(i)
  }
  return { chain, worth, follows }
}

/** Position of the first branch that holds; the branches from there on all do. */
function firstIndex(list: Int32Array, holds: (branch: number) => boolean): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (holds(list[middle]!)) high = middle
    else low = middle + 1
  }
  return low
}
