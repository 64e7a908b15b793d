// What is stored together when groups are credited: the credit of their steps, the rows of rollouts with new returns, and the rows of
// `credits`, which commit the groups.

import { groupAdvantages, type GroupCredit } from '../credit/group.ts'
import { steadyNow } from '../data/clock.ts'
import type { CreditSpec } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { openCreditRows, putCredit, type CreditRows } from './credit_rows.ts'
import type { Member } from './group_members.ts'
import { putRolloutRow, type RolloutRow } from './rollout_rows.ts'
import { openRows, putFloat64, putString, putUInt32, putUInt64, type Rows } from './row_binary.ts'

export interface Credit {
  readonly steps: CreditRows
  /** Rows of `rollouts`: those with new returns. */
  readonly rollouts: Rows
  /** Rows of `credits`. */
  readonly credits: Rows
  readonly now: number
}

/** About so many bytes are a row of `rollouts`. A buffer that grows is copied, page by fresh page: for thousands that was a tenth of the time. */
const ROW_BYTES = 2_048

/** @param rollouts about how many get new returns */
export const openCredit = (rollouts = 0): Credit => ({
  steps: openCreditRows(),
  rollouts: openRows((1 + rollouts) * ROW_BYTES),
  credits: openRows(),
  now: steadyNow(),
})

export const CREDIT_COLUMNS = 'tenant, group_id, credit_version, method, members, baseline, effective_size, created_at'

export function putGroup(
  { steps, credits, now }: Credit,
  group: string,
  members: readonly Member[],
  versions: ReadonlyMap<string, number>,
): void {
  const version = (versions.get(group) ?? 0) + 1
  const spec = members.at(-1)!.credit
  const result = groupAdvantages(members, spec)
  for (let i = 0; i < members.length; i++) putCredit(steps, members[i]!, result.advantages[i]!, version)
  putCreditsRow(credits, group, version, spec, result, now)
}

/** Those with new returns are stored with these, also where their group is not compared yet. */
export function putUncompared({ steps }: Credit, members: readonly Member[]): void {
  for (const member of members) {
    if (!member.assigned) continue
    const advantages = member.assigned.steps.map(({ advantage }) => advantage)
    putCredit(steps, member, advantages, null)
  }
}

export function putRollout({ rollouts, now }: Credit, row: RolloutRow, revisions: ReadonlyMap<string, number>): void {
  const revision = revisions.size > 0 ? revisions.get(routeKey(row.rollout_id, row.attempt_id)) : undefined
  putRolloutRow(rollouts, revision === undefined ? row : { ...row, revision }, now)
}

function putCreditsRow(
  rows: Rows,
  group: string,
  version: number,
  { method }: CreditSpec,
  { baseline, members, effective_size }: GroupCredit,
  now: number,
): void {
  putString(rows, '')
  putString(rows, group)
  putUInt32(rows, version)
  putString(rows, method)
  putUInt32(rows, members)
  putString(rows, baseline)
  putFloat64(rows, effective_size)
  putUInt64(rows, now)
  rows.count++
}
