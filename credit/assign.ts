// Stage A for a whole rollout: what is known of it as a trajectory, and what the method makes of that.

import { causalityOf } from '../data/causality.ts'
import { place } from '../data/place.ts'
import type { AirClass, CreditSpec, Moment, Rollout, Tool, Transition } from '../data/rollout.ts'
import { toolKey } from './air.ts'
import { bonus } from './bonus.ts'
import { groupAdvantages } from './group.ts'
import { methods, type MethodName } from './index.ts'
import { potential } from './potential.ts'
import { oldestVersion, scheduledLambda } from './schedule.ts'
import { statusRule } from './statuses.ts'
import { inTimeOrder } from './time_order.ts'

export interface CreditOptions extends Omit<CreditSpec, 'method' | 'lambda'> {
  readonly method: MethodName | 'auto'
  /** null: by the schedule. */
  readonly lambda: number | null
}

/** What a tool earns by. */
export type EarningTool = Moment &
  Pick<Tool, 'name' | 'arguments' | 'inferred' | 'requested_by'> & { readonly air_class?: AirClass | undefined }

/** A transition as credit sees it. */
export interface AssignedStep extends Pick<
  Transition,
  | 'step'
  | 'span_id'
  | 'agent'
  | 'policy_version'
  | 'reward_outcome'
  | 'reward_intermediate'
  | 'reward_parts'
  | 'return'
  | 'advantage'
  | 'credit_method'
> {
  readonly call: Moment
}

/** A rollout as credit sees it. */
export interface Creditable extends Pick<
  Rollout,
  'rollout_id' | 'task_id' | 'group_id' | 'status' | 'tree' | 'air_mode' | 'air_weight' | 'outcome'
> {
  readonly tools: readonly EarningTool[]
  readonly transitions: readonly AssignedStep[]
}

/** The rollout with returns, and with advantages only where no group can ever give them. */
export function assignCredit<R extends Creditable>(
  rollout: R,
  { method: asked, lambda, ...options }: CreditOptions,
): R & { credit: CreditSpec } {
  const method = asked !== 'auto' ? asked : rollout.air_mode === 'potential' ? 'gae_turn' : 'identical'
  const credit: CreditSpec = { ...options, method, lambda: lambda ?? scheduledLambda(oldestVersion(rollout.transitions)) }
  const { returns, air } = returnsOf(rollout, method, credit)
  const transitions = rollout.transitions.map((t, i) => ({ ...withBonus(t, air[i]!), return: returns[i]!, credit_method: method }))
  if (rollout.group_id || rollout.task_id || !['group', 'task'].includes(options.group_by ?? 'group'))
    return { ...rollout, credit, transitions }
  const [advantages] = groupAdvantages([{ ...rollout, excluded: false, transitions }], credit).advantages
  return { ...rollout, credit, transitions: transitions.map((t, i) => ({ ...t, advantage: advantages![i]! })) }
}

function returnsOf(rollout: Creditable, method: MethodName, options: CreditSpec): { returns: (number | null)[]; air: number[] } {
  const { transitions, air_mode, air_weight = 0 } = rollout
  const nothing = transitions.map(() => 0)
  const tools = earning(rollout)
  // A tool without a span of its own happened when the call that asked for it did.
  const places = tools.map(({ tool, call }) => (tool.inferred ? transitions[call]!.call : tool))
  const { tree, nodes } = place(rollout.tree, [...transitions.map((t) => t.call), ...places])
  const calls = nodes.slice(0, transitions.length)

  const [lowest, highest] = options.reward_range
  const weight = air_weight * (highest - lowest)
  const air = air_mode === 'bonus' ? bonus(tools, transitions.length, weight) : nothing
  const outcome = creditedOutcome(rollout, lowest, options)
  if (outcome === null) return { returns: transitions.map(() => null), air }

  const causality = causalityOf(tree)
  const placed = tools.map(({ key, air_class }, i) => ({ node: nodes[transitions.length + i]!, key, air_class }))
  const phis = air_mode === 'potential' ? potential(causality, placed, weight) : null
  const phi = phis ? calls.map((node) => phis[node]!) : nothing
  const steps = transitions.map((t) => (t.reward_intermediate ?? 0) - (t.reward_parts['air'] ?? 0))
  const trajectory = { causality, calls, steps, air, phi, outcome }
  return { returns: methods[method](options.causality === 'time' ? inTimeOrder(trajectory) : trajectory, options), air }
}

/** What a rollout's end is worth; null where nothing is known of it. */
function creditedOutcome({ status, outcome }: Creditable, lowest: number, options: CreditSpec): number | null {
  const rule = statusRule(status, options)
  return rule === 'as_scored' ? outcome : rule === 'lowest' ? lowest : null
}

interface Earning {
  readonly tool: EarningTool
  /** Index of the transition that asked for it. */
  readonly call: number
  readonly key: string
  readonly air_class: AirClass
}

/** Tools that `air` classed and that a policy call asked for, in the order of those calls: nobody else's tools earn. */
function earning({ tools, transitions, tree }: Creditable): Earning[] {
  const indices = new Map(transitions.map((t, i) => [t.span_id, i]))
  const found: Earning[] = []
  for (const tool of tools) {
    const call = indices.get(tool.requested_by)
    if (call !== undefined && tool.air_class) found.push({ tool, call, key: toolKey(tool), air_class: tool.air_class })
  }
  const start = ({ node, start_time }: EarningTool) => (node === -1 ? Number(start_time - tree.origin) / 1_000 : tree.start[node]!)
  return found.sort((a, b) => a.call - b.call || start(a.tool) - start(b.tool))
}

/** Replaces what an earlier assignment put there. */
function withBonus<T extends AssignedStep>(t: T, amount: number): T {
  const { air = 0, ...others } = t.reward_parts
  if (air === 0 && amount === 0) return t
  return {
    ...t,
    reward_intermediate: (t.reward_intermediate ?? 0) - air + amount,
    reward_parts: amount === 0 ? others : { ...others, air: amount },
  }
}
