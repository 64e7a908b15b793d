// Stage B: from the returns of a group's rollouts to advantages. Whitening over a batch, KL and value
// heads belong to an algorithm, not here.
//
// Baseline over rollouts: the mean over rollouts of each rollout's mean return, so that long rollouts do
// not weigh more (Agent Lightning 1.0's rollout level). Over transitions: the mean of all returns (Agent
// Lightning 0.x). Over agents: the mean of the returns of the same agent (Dr.MAS). Divided by the
// standard deviation only when asked for: that is GRPO, without it is Dr.GRPO. With `leave_one_out` a rollout has no part
// in its own baseline: RLOO (Ahmadian et al. 2024, arXiv 2402.14740).
//
// Grouped by task, where each visit is one rollout (group size 1, as in production), the baseline is the mean of the task's
// other rollouts, whatever version acted; below `min_group` there is no advantage at all, since a reader could not tell a
// 0 that was measured from one that was not.

import type { Baseline, CreditSpec, Status } from '../data/rollout.ts'
import { statusRule } from './statuses.ts'

/** One attempt of a rollout of the group. */
export interface Member {
  readonly rollout_id: string
  readonly status: Status
  /** Left out for a reason only the caller knows, such as mode `val`. */
  readonly excluded: boolean
  readonly transitions: readonly { readonly agent: string; readonly return: number | null }[]
}

export interface GroupCredit {
  /** The baseline used: `auto` resolved. */
  readonly baseline: Baseline
  readonly members: number
  /** Members that had a part in the baseline. */
  readonly effective_size: number
  /** False when every advantage is 0: there is nothing to learn from this group. */
  readonly signal: boolean
  /** `advantages[i][j]` is that of `members[i].transitions[j]`; null for one that has no part. */
  readonly advantages: readonly (readonly (number | null)[])[]
}

type GroupSpec = Pick<CreditSpec, 'baseline' | 'normalize' | 'min_group' | 'leave_one_out' | 'group_by' | 'statuses'>

/** Below this an advantage is rounding, not signal. */
const NO_SIGNAL = 1e-9
/** GRPO's guard against a small spread. */
const EPSILON = 1e-6

/**
 * Members come in the order in which the attempts began. A group of one, one below `min_group` and one
 * without signal get 0, never their raw returns.
 */
export function groupAdvantages(members: readonly Member[], spec: GroupSpec): GroupCredit {
  const counted = countedAttempts(members)
  const scored = members.filter((member) => hasPart(member, spec) && counted.get(member.rollout_id) === member)
  const baseline = spec.baseline === 'auto' ? defaultBaseline(scored) : spec.baseline
  const enough = baseline === 'none' || scored.length >= Math.max(2, spec.min_group)
  const byTask = spec.group_by === 'task'
  const alone = byTask || spec.leave_one_out
  const populations = populationsOf(scored, baseline)
  const taking = new Set(scored)

  const advantages = members.map((member) =>
    member.transitions.map((t) => {
      if (t.return === null || !taking.has(member)) return null
      if (!enough) return byTask ? null : 0
      if (baseline === 'none') return t.return
      const population = populations.get(baseline === 'agents' ? t.agent : '')!
      const mean = alone ? meanWithout(population, member) : population.mean
      if (mean === null) return 0
      return spec.normalize === 'std' && population.std > NO_SIGNAL ? (t.return - mean) / (population.std + EPSILON) : t.return - mean
    }),
  )
  const signal = advantages.some((row) => row.some((a) => a !== null && Math.abs(a) >= NO_SIGNAL))
  return {
    baseline,
    members: members.length,
    effective_size: scored.length,
    signal,
    advantages: signal ? advantages : advantages.map((row) => row.map((a) => (a === null ? null : 0))),
  }
}

/** Of each rollout its last attempt that succeeded, else its last. */
function countedAttempts(members: readonly Member[]): Map<string, Member> {
  const counted = new Map<string, Member>()
  for (const member of members) {
    const before = counted.get(member.rollout_id)
    if (!before || before.status !== 'succeeded' || member.status === 'succeeded') counted.set(member.rollout_id, member)
  }
  return counted
}

/** One without a return was never scored. */
function hasPart({ excluded, status, transitions }: Member, spec: GroupSpec): boolean {
  return !excluded && statusRule(status, spec) !== 'left_out' && transitions.some((t) => t.return !== null)
}

function defaultBaseline(members: readonly Member[]): Baseline {
  const agents = new Set<string>()
  for (const { transitions } of members) for (const { agent } of transitions) agents.add(agent)
  agents.delete('')
  return agents.size >= 2 ? 'agents' : 'rollouts'
}

interface Population {
  readonly mean: number
  readonly std: number
  readonly count: number
  /** Values of each member. */
  readonly of: ReadonlyMap<Member, readonly number[]>
}

/** What a transition is compared with: by agent, or one population ('') for all. */
function populationsOf(members: readonly Member[], baseline: Baseline): Map<string, Population> {
  const values = new Map<string, Map<Member, number[]>>()
  const add = (key: string, member: Member, value: number) => {
    let own = values.get(key)
    if (!own) values.set(key, (own = new Map()))
    const list = own.get(member)
    if (list) list.push(value)
    else own.set(member, [value])
  }
  for (const member of members) {
    const scored = member.transitions.filter((t): t is typeof t & { return: number } => t.return !== null)
    if (baseline === 'rollouts') add('', member, mean(scored.map((t) => t.return)))
    else for (const t of scored) add(baseline === 'agents' ? t.agent : '', member, t.return)
  }
  return new Map(
    [...values].map(([key, of]) => {
      const all = [...of.values()].flat()
      return [key, { mean: mean(all), std: standardDeviation(all), of, count: all.length }]
    }),
  )
}

/** Of the other members; null where there are none. */
function meanWithout({ mean, count, of }: Population, member: Member): number | null {
  const own = of.get(member)!
  if (own.length === count) return null
  return (mean * count - own.reduce((sum, v) => sum + v, 0)) / (count - own.length)
}

const mean = (values: readonly number[]) => values.reduce((sum, v) => sum + v, 0) / values.length

/** Of a sample (Bessel's correction), as GRPO has it; 0 for a single value. */
function standardDeviation(values: readonly number[]): number {
  const center = mean(values)
  const squares = values.reduce((sum, v) => sum + (v - center) ** 2, 0)
  return Math.sqrt(squares / Math.max(1, values.length - 1))
}
