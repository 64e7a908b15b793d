// What stands above each span: its agent, an evaluator, another model call, another tool. One pass from the
// roots down, without recursion, since a tree may be 10,000 deep.

import type { Reading } from './dialect.ts'
import type { SpanTree } from './tree.ts'

export interface Lineage {
  /** Nearest node above of that kind, -1 for none. */
  readonly agent: Int32Array
  readonly call: Int32Array
  readonly tool: Int32Array
  /** Name of the nearest agent above that has one. */
  readonly agentName: readonly (string | undefined)[]
  /** 1 below an evaluator, judge, guardrail or reward function. */
  readonly judged: Uint8Array
}

export function lineageOf(tree: SpanTree, readings: readonly (Reading | null)[]): Lineage {
  const agent = new Int32Array(tree.count).fill(-1)
  const call = new Int32Array(tree.count).fill(-1)
  const tool = new Int32Array(tree.count).fill(-1)
  const agentName = new Array<string | undefined>(tree.count)
  const judged = new Uint8Array(tree.count)
  for (const node of parentsFirst(tree)) {
    const parent = tree.parent[node]!
    if (parent === -1) continue
    const above = readings[parent]
    agent[node] = above?.kind === 'agent' ? parent : agent[parent]!
    call[node] = above?.kind === 'call' ? parent : call[parent]!
    tool[node] = above?.kind === 'tool' ? parent : tool[parent]!
    agentName[node] = (above?.kind === 'agent' ? above.name : undefined) ?? agentName[parent]
    judged[node] = above?.kind === 'evaluator' ? 1 : judged[parent]!
  }
  return { agent, call, tool, agentName, judged }
}

/** Every node after its parent. */
export function parentsFirst({ count, parent }: SpanTree): Int32Array {
  const order = new Int32Array(count)
  const placed = new Uint8Array(count)
  const path: number[] = []
  let length = 0
  for (let i = 0; i < count; i++) {
    for (let node = i; node !== -1 && placed[node] === 0; node = parent[node]!) {
      placed[node] = 1
      path.push(node)
    }
    while (path.length > 0) order[length++] = path.pop()!
  }
  return order
}
