// What happened before what, read from a rollout's span tree and not from the clock alone.
//
// Two spans are compared where their ways part: by the branches of their lowest common ancestor that
// hold them. u happened before v if and only if u's branch ended before v's began; branches that
// overlap are concurrent, so what goes wrong in one never counts against its sibling. A span that
// has children is one more branch beside them: concurrent with what it encloses, and before a child
// that began after it had ended. This is a strict partial order, whatever the tree looks like.
//
// Asking it of every pair would be quadratic. Everything below sweeps over the branches of each
// fork once, in order of time: n log n.

import type { SpanTree } from './tree.ts'

export interface Causality {
  readonly tree: SpanTree
  /** Every span with children, each after its parent; the first is `tree.count`, which stands for the whole rollout. */
  readonly forks: readonly number[]
  /** The branches of a fork by their beginning: its children and, except for the whole rollout, the fork's own span. */
  branches(fork: number): Int32Array
  /** The same by their end. */
  branchesByEnd(fork: number): Int32Array
  /** The same of all forks, one after the other: those of a fork stand from `first[fork]` to `first[fork + 1]`. Most forks have two or three. */
  readonly first: Int32Array
  readonly byStart: Int32Array
  readonly byEnd: Int32Array
  /** Whether branch a of a fork ended before its branch b began. */
  precedes(a: number, b: number): boolean
}

/** Worked out once for a tree: rewards, tools and credit all ask, one after the other. */
export function causalityOf(tree: SpanTree): Causality {
  if (latest?.tree !== tree) latest = workOut(tree)
  return latest
}

/** A map of all trees that are held costs the garbage collector more than what it holds is worth. */
let latest: Causality | undefined

function workOut(tree: SpanTree): Causality {
  const { count, parent, start } = tree
  const { first, list } = listBranches(parent)
  const forks = [count]
  for (const fork of forks) {
    for (let i = first[fork]!; i < first[fork + 1]!; i++) {
      const branch = list[i]!
      if (branch !== fork && first[branch + 1]! > first[branch]!) forks.push(branch)
    }
  }

  // A span without duration that has children was never ended, or its clock is coarse: it lasts as long as they do.
  const end = Float64Array.from(tree.end)
  for (let f = forks.length - 1; f > 0; f--) {
    const fork = forks[f]!
    if (end[fork]! > start[fork]!) continue
    for (let i = first[fork]!; i < first[fork + 1]!; i++) end[fork] = Math.max(end[fork]!, end[list[i]!]!)
  }

  const byEnd = list.slice()
  const at = (branches: Int32Array, fork: number) => branches.subarray(first[fork], first[fork + 1])
  const beginsLater = (a: number, b: number) => start[a]! - start[b]! || end[a]! - end[b]! || a - b
  const endsLater = (a: number, b: number) => end[a]! - end[b]! || start[a]! - start[b]! || a - b
  for (const fork of forks) {
    sort(list, first[fork]!, first[fork + 1]!, beginsLater)
    sort(byEnd, first[fork]!, first[fork + 1]!, endsLater)
  }

  return {
    ...{ tree, forks, first, byEnd, byStart: list },
    branches: (fork) => at(list, fork),
    branchesByEnd: (fork) => at(byEnd, fork),
    // Of two without duration at the same instant, the one that was seen first.
    precedes: (a, b) => end[a]! <= start[b]! && (start[a]! < end[b]! || a < b),
  }
}

/** As many are put in order right here: a view of them, and a call of sort(), would cost more. Most forks have two or three. */
const FEW = 16

/** Spans mostly come in order, and looking whether they do costs little. */
function sort(list: Int32Array, from: number, to: number, compare: (a: number, b: number) => number): void {
  if (to - from <= FEW) return insertionSort(list, from, to, compare)
  for (let i = from + 1; i < to; i++) if (compare(list[i - 1]!, list[i]!) > 0) return void list.subarray(from, to).sort(compare)
}

function insertionSort(list: Int32Array, from: number, to: number, compare: (a: number, b: number) => number): void {
  for (let i = from + 1; i < to; i++) {
    const one = list[i]!
    let at = i
    for (; at > from && compare(list[at - 1]!, one) > 0; at--) list[at] = list[at - 1]!
    list[at] = one
  }
}

/** Children of node p, and p itself if it has any, at `list[first[p]]` to `list[first[p + 1] - 1]`. */
function listBranches(parent: Int32Array): { first: Int32Array; list: Int32Array } {
  const count = parent.length
  const size = new Int32Array(count + 1)
  for (const p of parent) size[p === -1 ? count : p]!++
  const first = new Int32Array(count + 2)
  for (let p = 0; p <= count; p++) first[p + 1] = first[p]! + size[p]! + (p < count && size[p]! > 0 ? 1 : 0)
  const filled = first.slice()
  const list = new Int32Array(first[count + 1]!)
  const put = (p: number, branch: number) => (list[filled[p]!++] = branch)
  for (let node = 0; node < count; node++) {
    if (size[node]! > 0) put(node, node)
    put(parent[node] === -1 ? count : parent[node]!, node)
  }
  return { first, list }
}

/** Calls `begins` for every branch of a fork; by then `ended` was called for exactly the branches that happened before it. */
export function forward(causality: Causality, fork: number, ended: (branch: number) => void, begins: (branch: number) => void): void {
  const { first, byStart, byEnd, precedes } = causality
  const stop = first[fork + 1]!
  let e = first[fork]!
  for (let s = e; s < stop; s++) {
    const branch = byStart[s]!
    while (precedes(byEnd[e]!, branch)) ended(byEnd[e++]!)
    begins(branch)
  }
}

/** Calls `ends` for every branch of a fork; by then `begun` was called for exactly the branches that happened after it. */
export function backward(causality: Causality, fork: number, begun: (branch: number) => void, ends: (branch: number) => void): void {
  const { first, byStart, byEnd, precedes } = causality
  const start = first[fork]!
  let s = first[fork + 1]! - 1
  for (let e = s; e >= start; e--) {
    const branch = byEnd[e]!
    while (precedes(branch, byStart[s]!)) begun(byStart[s--]!)
    ends(branch)
  }
}

/** For every span the earliest-starting of `nodes` that happened after it; -1 where none did. */
export function nextAfter(causality: Causality, nodes: readonly number[]): Int32Array {
  const { tree, forks } = causality
  const { start } = tree
  const earlier = (a: number, b: number) => (b === -1 || (a !== -1 && (start[a]! - start[b]! || a - b) < 0) ? a : b)
  const own = marked(tree, nodes)
  const inside = gather(causality, own, earlier)
  const next = new Int32Array(tree.count).fill(-1)
  for (const fork of forks) {
    let best = fork === tree.count ? -1 : next[fork]!
    backward(
      causality,
      fork,
      (after) => (best = earlier(best, after === fork ? own[after]! : inside[after]!)),
      (branch) => (next[branch] = best),
    )
  }
  return next
}

/**
 * For every span the one of `nodes` that led to it. Looked for from the inside out: of those that happened before it
 * within the enclosing span, the last to end; else the enclosing span itself. -1 where there is none.
 */
export function lastBefore(causality: Causality, nodes: readonly number[]): Int32Array {
  const { tree, forks } = causality
  const { end } = tree
  const later = (a: number, b: number) => (b === -1 || (a !== -1 && (end[a]! - end[b]! || a - b) > 0) ? a : b)
  const own = marked(tree, nodes)
  const inside = gather(causality, own, later)
  const last = new Int32Array(tree.count).fill(-1)
  for (const fork of forks) {
    const enclosing = fork === tree.count ? -1 : own[fork] === fork ? fork : last[fork]!
    let best = -1
    forward(
      causality,
      fork,
      (before) => (best = later(best, before === fork ? own[before]! : inside[before]!)),
      (branch) => {
        if (branch !== fork) last[branch] = best === -1 ? enclosing : best
      },
    )
  }
  return last
}

function marked(tree: SpanTree, nodes: readonly number[]): Int32Array {
  const own = new Int32Array(tree.count).fill(-1)
  for (const node of nodes) own[node] = node
  return own
}

/** The best among each span and everything below it. */
function gather({ forks, first, byStart }: Causality, own: Int32Array, better: (a: number, b: number) => number): Int32Array {
  const inside = own.slice()
  for (let f = forks.length - 1; f > 0; f--) {
    const fork = forks[f]!
    for (let i = first[fork]!; i < first[fork + 1]!; i++) {
      const branch = byStart[i]!
      if (branch !== fork) inside[fork] = better(inside[fork]!, inside[branch]!)
    }
  }
  return inside
}
