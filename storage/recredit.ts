// Stage A again, for rollouts that are stored: from their outlines, since their spans may have expired. For a method that changed,
// and for a reward that came late. Stage B follows for every group concerned, and both are written together, so that what was late or
// changed takes the same way as what was on time.

import { creditOf, type AssignedStep, type CreditableStep } from '../credit/assign.ts'
import { methods, type MethodName } from '../credit/index.ts'
import { giveRewards } from '../data/policy_calls.ts'
import { AS_GIVEN, type RewardOptions } from '../data/rewards.ts'
import type { CreditSpec } from '../data/rollout.ts'
import type { CreditJob } from './credit_job.ts'
import type { Writer } from './credit_rows.ts'
import { specOf } from './group_members.ts'
import { restore, type Outline, type OutlinedRewards } from './outline.ts'
import type { RolloutKey } from './reward_targets.ts'
import type { RolloutRow } from './rollout_rows.ts'

export interface Recredit {
  /** Only rollouts that ended at this time or later, ms since the epoch. */
  readonly since?: number
  /** How they are credited from now on; what is not given stays as it was. */
  readonly credit?: Partial<CreditSpec>
  readonly reward_options?: RewardOptions
}

export interface Recredited {
  readonly rollouts: number
  readonly groups: number
}

/** A rollout with new returns, as it is to be stored. */
export interface Credited {
  readonly row: RolloutRow
  readonly credit: CreditSpec
  readonly steps: readonly AssignedStep[]
}

/** What becomes of them is held in memory. */
const TOGETHER = 2_000

type Deps = Writer & { readonly credit: CreditJob }

export async function recredit({ credit, ...writer }: Deps, request: Recredit): Promise<Recredited> {
  const { client, run } = writer
  const query = `
    SELECT rollout_id, attempt_id FROM rollouts FINAL
    WHERE credit != '' AND ended_at >= fromUnixTimestamp64Milli({since:Int64}) ORDER BY group_id, rollout_id, attempt_id`
  const wanted = await run(async () =>
    (await client.query({ query, query_params: { since: request.since ?? 0 }, format: 'JSONEachRow' })).json<RolloutKey>(),
  )
  const groups = new Set<string>()
  let rollouts = 0
  const become = (row: RolloutRow): Credited => {
    if (row.group_id !== '') groups.add(row.group_id)
    rollouts++
    const rewards = JSON.parse(row.rewards) as OutlinedRewards
    const options = request.reward_options ?? rewards.options
    return creditAgain(row, JSON.parse(String(row.outline)) as Outline, { ...rewards, ...(options && { options }) }, request.credit)
  }
  for (let i = 0; i < wanted.length; i += TOGETHER) await credit.again(wanted.slice(i, i + TOGETHER), become, { settled: true })
  return { rollouts, groups: groups.size }
}

/** What becomes of a stored rollout; null where it stays as it is. */
export type Become = (row: RolloutRow) => Credited | null

/** @param credit what is to be otherwise than it was */
export function creditAgain(row: RolloutRow, outline: Outline, rewards: OutlinedRewards, credit: Partial<CreditSpec> = {}): Credited {
  const { tree, taken, steps, tools, rewards: given } = restore(outline, rewards)
  const picked = steps.map(({ call }) => call)
  const found = giveRewards({ rewards: given, tree }, taken, picked, rewards.options ?? AS_GIVEN)
  const { outcome, parts: ofWhole } = found.rewards
  const hasParts = Object.keys(ofWhole).length > 0
  const transitions = steps.map(({ agent, call }, i): CreditableStep => {
    const { intermediate, parts } = found.given[i]!
    const reward_parts = hasParts ? { ...ofWhole, ...parts } : parts
    return { span_id: call.span_id, agent, policy_version: null, call, reward_intermediate: intermediate, reward_parts }
  })
  const spec = { ...specOf(row.credit), ...credit }
  const method = spec.method === 'auto' || spec.method in methods ? (spec.method as MethodName | 'auto') : 'auto'
  const { rollout_id, task_id, group_id, status, air_mode } = row
  // A lambda by schedule was settled when it was first credited.
  const assigned = creditOf(
    { rollout_id, task_id, group_id, status, air_mode, air_weight: outline.air_weight ?? 0, outcome, tree, tools, transitions },
    { ...spec, method },
  )
  const returns = assigned.steps.map((t) => t.return)
  return {
    row: { ...row, outcome, credit: JSON.stringify(assigned.credit), returns, rewards: JSON.stringify(rewards) },
    ...assigned,
  }
}
