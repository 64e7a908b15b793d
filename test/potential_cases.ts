// fixtures/rl/19_potential_credit.json as span trees: its lists of what comes after what, made of agents, calls and tools.

import { readFileSync } from 'node:fs'

import { causalityOf } from '../data/causality.ts'
import type { AirClass } from '../data/rollout.ts'
import { span, treeOf } from './random.ts'

interface RolloutCase {
  rollout_id: string
  outcome: number
  calls: { id: string; agent: string; start: number; after: string[] }[]
  tools: { id: string; key: string; class: AirClass }[]
  step_rewards: Record<string, number>
}

export interface PotentialCase {
  name: string
  gamma: number
  lambda: number
  excluded: string[]
  rollouts: RolloutCase[]
  expected: { rollout_id: string; phi: Numbers; next: Record<string, string | null>; gae: Numbers; return: Numbers }[]
  expected_advantage: Record<'rollouts' | 'transitions' | 'agents', Record<string, number | null>>
}
type Numbers = Record<string, number>

const file: { c: number; cases: PotentialCase[] } = JSON.parse(readFileSync('test/fixtures/rl/19_potential_credit.json', 'utf8'))
export const { c, cases } = file

/** Agents `left` and `right` run side by side in spans of their own; a call takes 2 and its tools follow it. */
export function grow({ calls, tools }: RolloutCase) {
  const spans = [span('run', '', 0, 100)]
  for (const agent of ['left', 'right']) {
    const own = calls.filter((call) => call.agent === agent)
    if (own.length > 0) spans.push(span(agent, 'run', own[0]!.start, own.at(-1)!.start + 8))
  }
  for (const call of calls) {
    const parent = spans.some((s) => s.span_id === call.agent) ? call.agent : 'run'
    spans.push(span(call.id, parent, call.start, call.start + 2))
    const asked = tools.filter((tool) => tool.id.startsWith(`${call.id}.`))
    for (const [i, tool] of asked.entries()) spans.push(span(tool.id, parent, call.start + 3 + i, call.start + 4 + i))
  }
  const tree = treeOf(spans)
  const nodeOf = (id: string) => spans.findIndex((s) => s.span_id === id)
  return { tree, causality: causalityOf(tree), nodeOf, idOf: (node: number) => spans[node]?.span_id ?? null }
}
