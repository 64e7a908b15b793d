// Stage A for a whole rollout: what is known of it as a trajectory, and what the method makes of that.

import { causalityOf } from '../data/causality.ts'
import { place } from '../data/place.ts'
import type { AirClass, Course, CreditSpec, Moment, Rollout, Tool, Transition } from '../data/rollout.ts'
import { toolNumbers } from './air.ts'
import { bonus } from './bonus.ts'
import { groupAdvantages } from './group.ts'
import { chainMethods, methods, type MethodName } from './index.ts'
import { potential } from './potential.ts'
import { oldestVersion, scheduledLambda } from './schedule.ts'
import { statusRule } from './statuses.ts'
import { inTimeOrder } from './time_order.ts'
import { nextOf, type Chain, type Method, type Trajectory } from './trajectory.ts'

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

/** A rollout as credit sees it once its course is known. */
export interface Scored extends Pick<Rollout, 'rollout_id' | 'task_id' | 'group_id' | 'status' | 'air_mode' | 'outcome'> {
  readonly transitions: readonly Pick<Transition, 'agent' | 'reward_intermediate' | 'reward_parts'>[]
}

/** The course that methods ask for, which may need the span tree. */
type Known = Course & Partial<Pick<Trajectory, 'causality' | 'calls'>>

/** The rollout with returns, and with advantages only where no group can ever give them. */
export function assignCredit(rollout: Rollout, options: CreditOptions): Rollout & { credit: CreditSpec } {
  const { credit, course, steps } = creditOf(rollout, options)
  return { ...rollout, credit, course, transitions: rollout.transitions.map((t, i) => withCredit(t, steps[i]!)) }
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

/** @returns `course` where it is all that crediting the rollout again takes, whatever rewards are given */
export function creditOf(
  rollout: Creditable,
  { method: asked, lambda, ...options }: CreditOptions,
): { credit: CreditSpec; course: Course | null; steps: AssignedStep[] } {
  const method = asked !== 'auto' ? asked : rollout.air_mode === 'potential' ? 'gae_turn' : 'identical'
  const credit: CreditSpec = { ...options, method, lambda: lambda ?? scheduledLambda(oldestVersion(rollout.transitions)) }
  const known = courseOf(rollout, credit)
  const course = method in chainMethods ? { next: known.next, air: known.air } : null
  return { credit, course, steps: creditAlong(known, rollout, credit) }
}

/** Stage A without the span tree. @param credit with one of `chainMethods`, unless the course comes with its tree */
export function creditAlong(course: Known, rollout: Scored, credit: CreditSpec): AssignedStep[] {
  const { transitions, air_mode } = rollout
  const nothing = transitions.map(() => 0)
  const air = air_mode === 'bonus' ? course.air : nothing
  const returns = returnsOf(course, rollout, { air, phi: air_mode === 'potential' ? course.air : nothing }, credit)
  const advantages = isAlone(rollout, credit) ? advantagesAlone(rollout, returns, credit) : null
  return transitions.map((t, i) => {
    const { reward_intermediate, reward_parts } = withBonus(t, air[i]!)
    const advantage = advantages ? advantages[i]! : null
    return { reward_intermediate, reward_parts, return: returns[i]!, advantage, credit_method: credit.method }
  })
}

/** No group will ever give it advantages. */
const isAlone = ({ group_id, task_id }: Scored, { group_by = 'group' }: CreditSpec): boolean =>
  !group_id && !task_id && (group_by === 'group' || group_by === 'task')

function advantagesAlone({ rollout_id, status, transitions }: Scored, returns: readonly (number | null)[], credit: CreditSpec) {
  const own = transitions.map(({ agent }, i) => ({ agent, return: returns[i]! }))
  return groupAdvantages([{ rollout_id, status, excluded: false, transitions: own }], credit).advantages[0]!
}

function returnsOf(
  { next, ...tree }: Known,
  rollout: Scored,
  given: Pick<Chain, 'air' | 'phi'>,
  credit: CreditSpec,
): readonly (number | null)[] {
  const outcome = creditedOutcome(rollout, credit.reward_range[0], credit)
  if (outcome === null) return rollout.transitions.map(() => null)
  const steps = rollout.transitions.map((t) => (t.reward_intermediate ?? 0) - (t.reward_parts['air'] ?? 0))
  const method: Method = methods[credit.method as MethodName]
  // Those that ask for the span tree come with it.
  const { causality, calls } = tree as Required<Known>
  return method({ causality, calls, next, steps, air: given.air, phi: given.phi, outcome }, credit)
}

/** What of a rollout's course its credit follows from. */
function courseOf(rollout: Creditable, options: CreditSpec): Required<Known> {
  const { transitions, air_mode, air_weight = 0 } = rollout
  const tools = earning(rollout)
  // A tool without a span of its own happened when the call that asked for it did.
  const places = tools.map(({ tool, call }) => (tool.inferred ? transitions[call]!.call : tool))
  const { tree, nodes } = place(rollout.tree, [...transitions.map((t) => t.call), ...places])
  const calls = nodes.slice(0, transitions.length)
  const causality = causalityOf(tree)

  const [lowest, highest] = options.reward_range
  const weight = air_weight * (highest - lowest)
  let air: readonly number[] = []
  if (air_mode === 'bonus') air = bonus(tools, transitions.length, weight)
  if (air_mode === 'potential') {
    const placed = tools.map(({ key, air_class }, i) => ({ node: nodes[transitions.length + i]!, key, air_class }))
    const phis = potential(causality, placed, weight)
    air = calls.map((node) => phis[node]!)
  }
  const order = options.causality === 'time' ? inTimeOrder({ causality, calls }) : { causality, calls }
  return { ...order, next: nextOf(order.causality, order.calls), air }
}

/** What a rollout's end is worth; null where nothing is known of it. */
function creditedOutcome({ status, outcome }: Scored, lowest: number, options: CreditSpec): number | null {
  const rule = statusRule(status, options)
  return rule === 'as_scored' ? outcome : rule === 'lowest' ? lowest : null
}

interface Earning {
  readonly tool: EarningTool
  /** Index of the transition that asked for it. */
  readonly call: number
  readonly key: number
  readonly air_class: AirClass
}

/** Tools that `air` classed and that a policy call asked for, in the order of those calls: nobody else's tools earn. */
function earning({ tools, transitions, tree }: Creditable): Earning[] {
  const indices = new Map(transitions.map((t, i) => [t.span_id, i]))
  const numberOf = toolNumbers()
  const found: Earning[] = []
  for (const tool of tools) {
    const call = indices.get(tool.requested_by)
    if (call !== undefined && tool.air_class) found.push({ tool, call, key: numberOf(tool), air_class: tool.air_class })
  }
  const start = ({ node, start_time }: EarningTool) => (node === -1 ? Number(start_time - tree.origin) / 1_000 : tree.start[node]!)
  return found.sort((a, b) => a.call - b.call || start(a.tool) - start(b.tool))
}

/** Replaces what an earlier assignment put there. */
function withBonus(t: Scored['transitions'][number], amount: number): Pick<Transition, 'reward_intermediate' | 'reward_parts'> {
  const before = t.reward_parts['air'] ?? 0
  if (before === 0 && amount === 0) return t
  const { air: _, ...others } = t.reward_parts
  return {
    reward_intermediate: (t.reward_intermediate ?? 0) - before + amount,
    reward_parts: amount === 0 ? others : { ...others, air: amount },
  }
}
