// A rollout's outline read again: what it takes to credit the rollout, as if its spans were there.

import type { EarningTool } from '../credit/assign.ts'
import type { RewardDimension } from '../data/dialect.ts'
import type { Moment } from '../data/rollout.ts'
import type { GivenReward } from '../data/standing.ts'
import type { SpanTree } from '../data/tree.ts'
import type { Outline, OutlinedReward, OutlinedRewards, Times } from './outline.ts'

/** What a rollout is credited by, as its outline kept it. */
export interface Restored {
  readonly tree: SpanTree
  /** Those that a policy answered, in their order. */
  readonly taken: readonly Moment[]
  /** Those that are trained, by step. */
  readonly steps: readonly RestoredStep[]
  readonly tools: readonly EarningTool[]
  readonly rewards: readonly GivenReward[]
}

interface RestoredStep {
  readonly step: number
  readonly agent: string
  readonly call: Moment
}

export function restore({ origin, nodes, calls, tools }: Outline, { given }: OutlinedRewards): Restored {
  const tree: SpanTree = {
    count: nodes.parent.length,
    origin: BigInt(origin),
    parent: new Int32Array(nodes.parent),
    start: new Float64Array(nodes.start),
    end: new Float64Array(nodes.end),
    orphans: 0,
    cycles: 0,
  }
  const start = (node: number, times: Times | undefined) => (node === -1 ? BigInt(times![0]) : IN_TREE)
  const end = (node: number, times: Times | undefined) => (node === -1 ? BigInt(times![1]) : IN_TREE)
  const taken: Moment[] = []
  const steps: RestoredStep[] = []
  // Field by field: spreading objects into one is several times slower, and ten thousand outlines may be restored at once.
  for (const { node, span_id, agent = '', judged, step, untrained, times } of calls) {
    if (judged || (step === undefined && !untrained)) continue
    const call: Moment = {
      span_id,
      node,
      start_time: start(node, times),
      end_time: end(node, times),
      judged: false,
      sequence_id: undefined,
    }
    taken.push(call)
    if (step !== undefined) steps.push({ step, agent, call })
  }
  return {
    tree,
    taken,
    steps: steps.sort((a, b) => a.step - b.step),
    // The key stands for name and arguments, which nobody needs any more.
    tools: tools.map(({ node, key, requested_by = '', inferred, air_class, times }) => ({
      span_id: '',
      node,
      start_time: start(node, times),
      end_time: end(node, times),
      judged: false,
      name: key,
      inferred,
      requested_by,
      air_class,
    })),
    rewards: given.map((one) => restoreReward(one, start(one.node, one.times), end(one.node, one.times))),
  }
}

/** And how it stands, where its row has a course. */
export type RestoredReward = GivenReward & { readonly [key in 'at' | 'whole' | 'step']: OutlinedReward[key] | undefined }

export function restoreReward(
  { node, target, values, source, id, primary, override, sequence_id, at, whole, step }: OutlinedReward,
  start_time = IN_TREE,
  end_time = IN_TREE,
): RestoredReward {
  const dimensions: RewardDimension[] = []
  for (const name of Object.keys(values)) dimensions.push({ name, value: values[name]! })
  return {
    span_id: '',
    node,
    start_time,
    end_time,
    judged: false,
    sequence_id,
    source,
    id,
    primary,
    override,
    dimensions,
    target: target === null ? undefined : NOTHING_NAMED,
    target_node: target === null || target === -1 ? undefined : target,
    at,
    whole,
    step,
  }
}

/** Of what stands in the tree, which has its times. */
const IN_TREE = 0n
const NOTHING_NAMED = {}
