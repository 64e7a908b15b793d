// Causality as it is defined, asked pair by pair and without a thought for speed.

import type { SpanTree } from '../data/tree.ts'

/** Whether u happened before v: where their ways part, u's branch ended before v's began. */
export function pairwise(tree: SpanTree): (u: number, v: number) => boolean {
  const nodes = [...tree.parent.keys()]
  const endOf = (node: number): number => {
    const children = nodes.filter((child) => tree.parent[child] === node)
    return tree.end[node]! > tree.start[node]! ? tree.end[node]! : Math.max(tree.end[node]!, ...children.map(endOf))
  }
  const end = nodes.map(endOf)
  const path = (node: number): number[] => (node === -1 ? [] : [...path(tree.parent[node]!), node])
  const paths = nodes.map(path)
  return (u, v) => {
    if (u === v) return false
    const [a, b] = [paths[u]!, paths[v]!]
    const fork = a.findIndex((node, i) => node !== b[i])
    // Where one encloses the other, its own span stands for its branch.
    const [from, to] = fork === -1 ? [u, b[a.length]!] : fork >= b.length ? [a[fork]!, v] : [a[fork]!, b[fork]!]
    return end[from]! <= tree.start[to]! && (tree.start[from]! < end[to]! || from < to)
  }
}
