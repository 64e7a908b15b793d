// Rows of `rollouts`, `outlines`, `rollout_members`, `rewards`, `reward_targets` and `rejects`.

import type { Reject, Reward, Rollout } from '../data/rollout.ts'
import { groupId } from './groups.ts'
import type { Outline, Outlined } from './outline.ts'
import { putArray, putFloat64, putInt32, putNullable, putString, putUInt32, putUInt64, putUInt8, type Rows } from './row_binary.ts'

export const ROLLOUT_COLUMNS = `tenant, rollout_id, attempt_id, task_id, group_id, group_size, mode, status, closed_by, complete, revision,
  started_at, ended_at, spans, covered_until, calls, transitions, outcome, air_mode, credit, agents, returns, next, air, rewards, committed_at`

/** A row as it is stored. Times as in Rollout. */
export interface RolloutRow extends Pick<
  Rollout,
  | 'tenant'
  | 'rollout_id'
  | 'attempt_id'
  | 'task_id'
  | 'group_id'
  | 'group_size'
  | 'mode'
  | 'status'
  | 'closed_by'
  | 'complete'
  | 'revision'
  | 'spans'
  | 'covered_until'
  | 'outcome'
  | 'started_at'
  | 'ended_at'
  | 'air_mode'
> {
  readonly calls: number
  readonly transitions: number
  /** JSON. */
  readonly credit: string
  /** Of each transition. */
  readonly agents: readonly string[]
  readonly returns: readonly (number | null)[]
  /** Its course; `next` is empty where only the outline tells. */
  readonly next: readonly number[]
  readonly air: readonly number[]
  /** JSON of OutlinedRewards. */
  readonly rewards: string
}

export function rolloutRow(rollout: Rollout, { rewards, course }: Outlined): RolloutRow {
  return {
    ...rollout,
    group_id: groupId(rollout),
    calls: rollout.calls.length,
    transitions: rollout.transitions.length,
    credit: rollout.credit ? JSON.stringify(rollout.credit) : '',
    agents: rollout.transitions.map(({ agent }) => agent),
    returns: rollout.transitions.map((t) => t.return),
    next: course?.next ?? [],
    air: course?.air ?? [],
    rewards: JSON.stringify(rewards),
  }
}

export function putRolloutRow(rows: Rows, row: RolloutRow, committedAt: number): void {
  for (const text of [row.tenant, row.rollout_id, row.attempt_id, row.task_id, row.group_id]) putString(rows, text)
  putUInt32(rows, row.group_size)
  for (const text of [row.mode, row.status, row.closed_by]) putString(rows, text)
  putUInt8(rows, row.complete ? 1 : 0)
  putUInt32(rows, row.revision)
  putUInt64(rows, row.started_at)
  putUInt64(rows, row.ended_at)
  putUInt64(rows, row.spans)
  putUInt64(rows, row.covered_until)
  putUInt32(rows, row.calls)
  putUInt32(rows, row.transitions)
  putNullable(rows, row.outcome, putFloat64)
  putString(rows, row.air_mode)
  putString(rows, row.credit)
  putArray(rows, row.agents, putString)
  putArray(rows, row.returns, putNumber)
  putArray(rows, row.next, putInt32)
  putArray(rows, row.air, putFloat64)
  putString(rows, row.rewards)
  putUInt64(rows, committedAt)
  rows.count++
}

export const OUTLINE_COLUMNS = 'tenant, rollout_id, attempt_id, revision, outline, inserted_at'

export function putOutline(
  rows: Rows,
  rollout: Pick<Rollout, 'tenant' | 'rollout_id' | 'attempt_id' | 'revision'>,
  outline: Outline,
  insertedAt: number,
): void {
  for (const text of [rollout.tenant, rollout.rollout_id, rollout.attempt_id]) putString(rows, text)
  putUInt32(rows, rollout.revision)
  putString(rows, JSON.stringify(outline))
  putUInt64(rows, insertedAt)
  rows.count++
}

const putNumber = (rows: Rows, value: number | null) => putNullable(rows, value, putFloat64)

export const MEMBER_COLUMNS = 'tenant, trace_id, rollout_id, attempt_id, joined_at'

type Members = Pick<Rollout, 'tenant' | 'trace_ids' | 'rollout_id' | 'attempt_id'>

export function putMembers(rows: Rows, { tenant, trace_ids, rollout_id, attempt_id }: Members, joinedAt: number): void {
  for (const trace_id of trace_ids) {
    for (const text of [tenant, trace_id, rollout_id, attempt_id]) putString(rows, text)
    putUInt64(rows, joinedAt)
    rows.count++
  }
}

export const KEY_COLUMNS = 'tenant, name, value, rollout_id, attempt_id, joined_at'

export function putKeys(rows: Rows, { tenant, keys = [], rollout_id, attempt_id }: Rollout, joinedAt: number): void {
  for (const [name, value] of keys) {
    for (const text of [tenant, name, value, rollout_id, attempt_id]) putString(rows, text)
    putUInt64(rows, joinedAt)
    rows.count++
  }
}

export const REWARD_COLUMNS = `tenant, reward_id, target_rollout_id, target_trace_id, target_span_id, target_response_id, target_session,
  name, value, label, source, annotator, given_at, received_at`

/** One row for each dimension of a reward. */
export function putReward(rows: Rows, { tenant }: Pick<Rollout, 'tenant'>, reward: Reward, receivedAt: number): void {
  const { rollout_id = '', trace_id = '', span_id = '', response_id = '', session = '' } = reward.target ?? {}
  for (const { name, value, label = '' } of reward.dimensions) {
    for (const text of [tenant, reward.reward_id, rollout_id, trace_id, span_id, response_id, session, name]) putString(rows, text)
    putNullable(rows, value, putFloat64)
    for (const text of [label, reward.source, reward.annotator ?? '']) putString(rows, text)
    putUInt64(rows, Math.max(0, Math.trunc(reward.given_at)))
    putUInt64(rows, receivedAt)
    rows.count++
  }
}

export const REWARD_TARGET_COLUMNS = 'tenant, reward_id, rollout_id, attempt_id, resolved_at'

export function putRewardTarget(
  rows: Rows,
  { tenant, rollout_id, attempt_id }: Omit<Members, 'trace_ids'>,
  { reward_id }: Reward,
  resolvedAt: number,
): void {
  for (const text of [tenant, reward_id, rollout_id, attempt_id]) putString(rows, text)
  putUInt64(rows, resolvedAt)
  rows.count++
}

export const REJECT_COLUMNS = 'tenant, rollout_id, attempt_id, revision, span_id, policy, reason, detail, inserted_at'

type Rejecting = Pick<Rollout, 'tenant' | 'rollout_id' | 'attempt_id' | 'revision'>

export function putReject(
  rows: Rows,
  { tenant, rollout_id, attempt_id, revision }: Rejecting,
  { span_id, policy, reason, detail }: Reject,
  insertedAt: number,
): void {
  for (const text of [tenant, rollout_id, attempt_id]) putString(rows, text)
  putUInt32(rows, revision)
  for (const text of [span_id, policy, reason, detail]) putString(rows, text)
  putUInt64(rows, insertedAt)
  rows.count++
}
