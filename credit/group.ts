// Stage B: from the returns of a group's rollouts to advantages. Whitening over a batch, KL and value
// heads belong to an algorithm, not here.
//
// Baseline over rollouts: the mean over rollouts of each rollout's mean return, so that long rollouts do
// not weigh more (Agent Lightning 1.0's rollout level). Over transitions: the mean of all returns (Agent
// Lightning 0.x). Over agents: the mean of the returns of the same agent (Dr.MAS). Divided by the
// standard deviation only when asked for: that is GRPO, without it is Dr.GRPO.

import type { Baseline, CreditSpec, Status } from '../data/rollout.ts'

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

/** Below this an advantage is rounding, not signal. */
const NO_SIGNAL = 1e-9
/** GRPO's guard against a small spread. */
const EPSILON = 1e-6

/**
 * Members come in the order in which the attempts began. A group of one, one below `min_group` and one
 * without signal get 0, never their raw returns.
 */
export function groupAdvantages(members: readonly Member[], spec: Pick<CreditSpec, 'baseline' | 'normalize' | 'min_group'>): GroupCredit {
  const counted = countedAttempts(members)
  const scored = members.filter((member) => hasPart(member) && counted.get(member.rollout_id) === member)
  const baseline = spec.baseline === 'auto' ? defaultBaseline(scored) : spec.baseline
  const enough = baseline === 'none' || scored.length >= Math.max(2, spec.min_group)
  const populations = populationsOf(scored, baseline)
  const taking = new Set(scored)

  const advantages = members.map((member) =>
    member.transitions.map((t) => {
      if (t.return === null || !taking.has(member)) return null
      if (!enough) return 0
      if (baseline === 'none') return t.return
      const { mean, std } = populations.get(baseline === 'agents' ? t.agent : '')!
      return spec.normalize === 'std' && std > NO_SIGNAL ? (t.return - mean) / (std + EPSILON) : t.return - mean
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

/** Cancelled and timed-out rollouts tell of the infrastructure, not of the policy; one without a return was never scored. */
function hasPart({ excluded, status, transitions }: Member): boolean {
  return !excluded && status !== 'cancelled' && status !== 'timeout' && transitions.some((t) => t.return !== null)
}

function defaultBaseline(members: readonly Member[]): Baseline {
  const agents = new Set(members.flatMap((m) => m.transitions.map((t) => t.agent)))
  agents.delete('')
  return agents.size >= 2 ? 'agents' : 'rollouts'
}

/** What a transition is compared with: by agent, or one population ('') for all. */
function populationsOf(members: readonly Member[], baseline: Baseline): Map<string, { mean: number; std: number }> {
  const values = new Map<string, number[]>()
  const add = (key: string, value: number) => {
    const list = values.get(key)
    if (list) list.push(value)
    else values.set(key, [value])
  }
  for (const { transitions } of members) {
    const scored = transitions.filter((t): t is typeof t & { return: number } => t.return !== null)
    if (baseline === 'rollouts') add('', mean(scored.map((t) => t.return)))
    else for (const t of scored) add(baseline === 'agents' ? t.agent : '', t.return)
  }
  return new Map([...values].map(([key, list]) => [key, { mean: mean(list), std: standardDeviation(list) }]))
}

const mean = (values: readonly number[]) => values.reduce((sum, v) => sum + v, 0) / values.length

/** Of a sample (Bessel's correction), as GRPO has it; 0 for a single value. */
function standardDeviation(values: readonly number[]): number {
  const center = mean(values)
  const squares = values.reduce((sum, v) => sum + (v - center) ** 2, 0)
  return Math.sqrt(squares / Math.max(1, values.length - 1))
}
