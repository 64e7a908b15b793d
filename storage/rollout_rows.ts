// Rows of `rollouts`, `rollout_members`, `rewards`, `reward_targets` and `rejects`.

import type { Reward, Rollout } from '../data/rollout.ts'
import { groupId } from './groups.ts'
import { outline } from './outline.ts'
import { putFloat64, putNullable, putString, putUInt32, putUInt64, putUInt8, type Rows } from './row_binary.ts'

export const ROLLOUT_COLUMNS = `tenant, rollout_id, attempt_id, task_id, group_id, group_size, mode, status, closed_by, complete, revision,
  started_at, ended_at, spans, covered_until, calls, transitions, outcome, air_mode, credit, outline, committed_at`

export function putRollout(rows: Rows, rollout: Rollout, committedAt: number): void {
  putString(rows, rollout.tenant)
  putString(rows, rollout.rollout_id)
  putString(rows, rollout.attempt_id)
  putString(rows, rollout.task_id)
  putString(rows, groupId(rollout))
  putUInt32(rows, rollout.group_size)
  putString(rows, rollout.mode)
  putString(rows, rollout.status)
  putString(rows, rollout.closed_by)
  putUInt8(rows, rollout.complete ? 1 : 0)
  putUInt32(rows, rollout.revision)
  putUInt64(rows, rollout.started_at)
  putUInt64(rows, rollout.ended_at)
  putUInt64(rows, rollout.spans)
  putUInt64(rows, rollout.covered_until)
  putUInt32(rows, rollout.calls.length)
  putUInt32(rows, rollout.transitions.length)
  putNullable(rows, rollout.outcome, putFloat64)
  putString(rows, rollout.air_mode)
  putString(rows, rollout.credit ? JSON.stringify(rollout.credit) : '')
  putString(rows, JSON.stringify(outline(rollout)))
  putUInt64(rows, committedAt)
  rows.count++
}

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

type Rejects = Pick<Rollout, 'tenant' | 'rollout_id' | 'attempt_id' | 'revision' | 'rejects'>

export function putRejects(rows: Rows, { tenant, rollout_id, attempt_id, revision, rejects }: Rejects, insertedAt: number): void {
  for (const { span_id, policy, reason, detail } of rejects) {
    for (const text of [tenant, rollout_id, attempt_id]) putString(rows, text)
    putUInt32(rows, revision)
    for (const text of [span_id, policy, reason, detail]) putString(rows, text)
    putUInt64(rows, insertedAt)
    rows.count++
  }
}
