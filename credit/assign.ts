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
export interface CreditableStep extends Pick<Transition, 'span_id' | 'agent' | 'policy_version' | 'reward_intermediate' | 'reward_parts'> {
  readonly call: Moment
}

/** A rollout as credit sees it. */
export interface Creditable extends Pick<
  Rollout,
  'rollout_id' | 'task_id' | 'group_id' | 'status' | 'tree' | 'air_mode' | 'air_weight' | 'outcome'
> {
  readonly tools: readonly EarningTool[]
  readonly transitions: readonly CreditableStep[]
}

/** What credit makes of a transition. */
export type AssignedStep = Pick<Transition, 'reward_intermediate' | 'reward_parts' | 'return' | 'advantage' | 'credit_method'>

/** The rollout with returns, and with advantages only where no group can ever give them. */
export function assignCredit(rollout: Rollout, options: CreditOptions): Rollout & { credit: CreditSpec } {
  const { credit, steps } = creditOf(rollout, options)
  return { ...rollout, credit, transitions: rollout.transitions.map((t, i) => withCredit(t, steps[i]!)) }
}

/** Field by field: spreading two objects into one is several times slower. */
const withCredit = (t: Transition, step: AssignedStep): Transition => ({
  ...t,
  reward_intermediate: step.reward_intermediate,
  reward_parts: step.reward_parts,
  return: step.return,
  advantage: step.advantage,
  credit_method: step.credit_method,
})

export function creditOf(
  rollout: Creditable,
  { method: asked, lambda, ...options }: CreditOptions,
): { credit: CreditSpec; steps: AssignedStep[] } {
  const method = asked !== 'auto' ? asked : rollout.air_mode === 'potential' ? 'gae_turn' : 'identical'
  const credit: CreditSpec = { ...options, method, lambda: lambda ?? scheduledLambda(oldestVersion(rollout.transitions)) }
  const { returns, air } = returnsOf(rollout, method, credit)
  const advantages = isAlone(rollout, credit) ? advantagesAlone(rollout, returns, credit) : null
  const steps = rollout.transitions.map((t, i) => {
    const { reward_intermediate, reward_parts } = withBonus(t, air[i]!)
    return { reward_intermediate, reward_parts, return: returns[i]!, advantage: advantages ? advantages[i]! : null, credit_method: method }
  })
  return { credit, steps }
}

/** No group will ever give it advantages. */
const isAlone = ({ group_id, task_id }: Creditable, { group_by = 'group' }: CreditSpec): boolean =>
  !group_id && !task_id && (group_by === 'group' || group_by === 'task')

function advantagesAlone({ rollout_id, status, transitions }: Creditable, returns: readonly (number | null)[], credit: CreditSpec) {
  const own = transitions.map(({ agent }, i) => ({ agent, return: returns[i]! }))
  return groupAdvantages([{ rollout_id, status, excluded: false, transitions: own }], credit).advantages[0]!
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
function withBonus(t: CreditableStep, amount: number): Pick<Transition, 'reward_intermediate' | 'reward_parts'> {
  const before = t.reward_parts['air'] ?? 0
  if (before === 0 && amount === 0) return t
  const { air: _, ...others } = t.reward_parts
  return {
    reward_intermediate: (t.reward_intermediate ?? 0) - before + amount,
    reward_parts: amount === 0 ? others : { ...others, air: amount },
  }
}
