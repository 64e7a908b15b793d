// Stage A again, for a rollout that is stored: along its course, which its row holds, or from its outline where that is not enough.
// Either finds what was found when the rollout was new, also when its spans have expired.

import { creditAlong, creditOf, type AssignedStep, type CreditableStep } from '../credit/assign.ts'
import { chainMethods, methods, type MethodName } from '../credit/index.ts'
import { giveRewards } from '../data/policy_calls.ts'
import { AS_GIVEN, decide, type Outcome, type StepReward } from '../data/rewards.ts'
import type { CreditSpec } from '../data/rollout.ts'
import type { GivenReward } from '../data/standing.ts'
import { specOf } from './group_members.ts'
import { withStandings, type Outline, type OutlinedRewards } from './outline.ts'
import { restore, restoreReward, type RestoredReward } from './restore_outline.ts'
import type { RolloutRow } from './rollout_rows.ts'

/** A rollout with new returns, as it is to be stored. */
export interface Credited {
  readonly row: RolloutRow
  readonly credit: CreditSpec
  readonly steps: readonly AssignedStep[]
}

/** Whether its row is enough to credit it again as it was credited before. */
export const hasCourse = ({ next, credit }: RolloutRow): boolean => next.length > 0 && specOf(credit).method in chainMethods

/** @param rewards each with its standing */
export function creditAlongCourse(row: RolloutRow, rewards: OutlinedRewards): Credited {
  const restored = rewards.given.map((one) => restoreReward(one))
  const found = decide(restored, STANDING, rewards.options ?? AS_GIVEN)
  const usual = rewarded(NOTHING, found)
  const transitions = row.agents.map((agent, step) => {
    const own = found.steps.size > 0 ? found.steps.get(String(step)) : undefined
    const { reward_intermediate, reward_parts } = own ? rewarded(own, found) : usual
    return { agent, reward_intermediate, reward_parts }
  })
  const credit = specOf(row.credit)
  const { rollout_id, task_id, group_id, status, air_mode, next, air } = row
  const scored = { rollout_id, task_id, group_id, status, air_mode, outcome: found.outcome, transitions }
  const steps = creditAlong({ next, air }, scored, credit)
  return { row: credited(row, found, steps, rewards), credit, steps }
}

/** @param credit what is to be otherwise than it was */
export function creditFromOutline(row: RolloutRow, outline: Outline, rewards: OutlinedRewards, credit: Partial<CreditSpec> = {}): Credited {
  const { tree, taken, steps: trained, tools, rewards: restored } = restore(outline, rewards)
  const calls = trained.map(({ call }) => call)
  const { rewards: found, given } = giveRewards({ rewards: restored, tree }, taken, calls, rewards.options ?? AS_GIVEN)
  const transitions = trained.map(({ agent, call }, i): CreditableStep => ({
    span_id: call.span_id,
    agent,
    policy_version: null,
    call,
    ...rewarded(given[i]!, found),
  }))
  const spec = { ...specOf(row.credit), ...credit }
  const method = spec.method === 'auto' || spec.method in methods ? (spec.method as MethodName | 'auto') : 'auto'
  const { rollout_id, task_id, group_id, status, air_mode } = row
  const rollout = { rollout_id, task_id, group_id, status, air_mode, air_weight: outline.air_weight ?? 0, outcome: found.outcome }
  // A lambda by schedule was settled when it was first credited.
  const assigned = creditOf({ ...rollout, tree, tools, transitions }, { ...spec, method })
  const course = taken.length === trained.length ? assigned.course : null
  const standing = course ? { ...rewards, given: withStandings(rewards.given, restored, trained, tree) } : rewards
  const kept = { ...row, credit: JSON.stringify(assigned.credit), next: course?.next ?? [], air: course?.air ?? [] }
  return { ...assigned, row: credited(kept, found, assigned.steps, standing) }
}

const credited = (row: RolloutRow, { outcome }: Outcome, steps: readonly AssignedStep[], rewards: OutlinedRewards): RolloutRow => ({
  ...row,
  outcome,
  returns: steps.map((t) => t.return),
  rewards: JSON.stringify(rewards),
})

function rewarded({ intermediate, parts }: StepReward, { parts: ofWhole }: Outcome) {
  return { reward_intermediate: intermediate, reward_parts: Object.keys(ofWhole).length > 0 ? { ...ofWhole, ...parts } : parts }
}

const NOTHING: StepReward = { intermediate: null, parts: {} }

/** Transitions are named by their step. */
const STANDING = {
  at: ({ at }: RestoredReward) => at!,
  isWhole: ({ whole }: RestoredReward) => whole === true,
  owners(some: readonly RestoredReward[]): ReadonlyMap<GivenReward, string> {
    const owners = new Map<GivenReward, string>()
    for (const reward of some) if (reward.step !== undefined) owners.set(reward, String(reward.step))
    return owners
  },
}
