// A place in the span tree for what has no span of its own: some frameworks write calls and tools as log records only.

import type { Place } from './rollout.ts'
import type { SpanTree } from './tree.ts'

type Timed = Pick<Place, 'node' | 'start_time' | 'end_time'>

/** @returns the node of each item: its own, else a new root at the item's own times; and the tree with those */
export function place(tree: SpanTree, items: readonly Timed[]): { tree: SpanTree; nodes: number[] } {
  const placeless = items.filter((item) => item.node === -1)
  if (placeless.length === 0) return { tree, nodes: items.map((item) => item.node) }
  const origin = tree.count > 0 ? tree.origin : earliest(placeless)
  const count = tree.count + placeless.length
  const parent = new Int32Array(count).fill(-1)
  const start = new Float64Array(count)
  const end = new Float64Array(count)
  parent.set(tree.parent)
  start.set(tree.start)
  end.set(tree.end)
  let free = tree.count
  const nodes = items.map(({ node, start_time, end_time }) => {
    if (node !== -1) return node
    start[free] = start_time === 0n ? 0 : Number(start_time - origin) / 1_000
    end[free] = Math.max(start[free]!, Number(end_time - origin) / 1_000)
    return free++
  })
  return { tree: { ...tree, count, origin, parent, start, end }, nodes }
}

function earliest(items: readonly Timed[]): bigint {
  return items.reduce((first, { start_time: t }) => (t !== 0n && (first === 0n || t < first) ? t : first), 0n)
}
