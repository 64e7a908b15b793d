// Rows of `transition_rows`. A prompt is written as what is new since the step it extends: the
// messages after that step's completion, and the tokens after the prefix that both share.

import type { Message, Usage } from '../data/dialect.ts'
import type { Rollout, Transition } from '../data/rollout.ts'
import { groupId } from './groups.ts'
import {
  putArray,
  putFloat32Array,
  putFloat64,
  putInt32,
  putMap,
  putNullable,
  putString,
  putUInt32,
  putUInt32Array,
  putUInt64,
  putUInt8,
  putVarint,
  type Rows,
} from './row_binary.ts'

export const TRANSITION_COLUMNS = `tenant, rollout_id, attempt_id, revision, step, span_id, parent_step, trace_id, task_id, group_id,
  policy, policy_version, agent, model, response_id, prompt_messages, completion, tools, finish_reason, params,
  prompt_token_ids, prefix_length, response_token_ids, response_logprobs, token_source,
  reward_outcome, reward_intermediate, reward_parts, return, advantage, weight, credit_method, credit_version,
  started_at, duration, usage, flags, inserted_at`

/** Appends every transition of a rollout. `insertedAt` in milliseconds since the epoch. */
export function putTransitions(rows: Rows, rollout: Rollout, insertedAt: number): void {
  const group = groupId(rollout)
  const bySteps = new Map(rollout.transitions.map((transition) => [transition.step, transition]))
  for (const transition of rollout.transitions)
    putTransition(rows, rollout, group, transition, bySteps.get(transition.parent_step), insertedAt)
}

function putTransition(
  rows: Rows,
  rollout: Rollout,
  group: string,
  t: Transition,
  parent: Transition | undefined,
  insertedAt: number,
): void {
  const { call } = t
  const { prefix, suffix } = newTokens(t, parent)
  putString(rows, rollout.tenant)
  putString(rows, rollout.rollout_id)
  putString(rows, rollout.attempt_id)
  putUInt32(rows, rollout.revision)
  putUInt32(rows, t.step)
  putString(rows, t.span_id)
  putInt32(rows, t.parent_step)
  putString(rows, t.trace_id)
  putString(rows, rollout.task_id)
  putString(rows, group)
  putString(rows, t.policy)
  putNullable(rows, isCount(t.policy_version) ? t.policy_version : null, putUInt64)
  putString(rows, t.agent)
  putString(rows, t.model)
  putString(rows, t.response_id)
  putString(rows, json(newMessages(t, parent)))
  putString(rows, call.completion ? json(call.completion) : '')
  putString(rows, call.tools ? json(call.tools) : '[]')
  putString(rows, call.finish ?? '')
  putString(rows, call.params ? json(call.params) : '{}')
  putUInt32Array(rows, suffix)
  putUInt32(rows, prefix)
  putUInt32Array(rows, call.tokens?.response ?? [])
  putFloat32Array(rows, call.tokens?.logprobs ?? [])
  putString(rows, call.tokens?.source ?? 'none')
  putNullable(rows, t.reward_outcome, putFloat64)
  putNullable(rows, t.reward_intermediate, putFloat64)
  putMap(rows, t.reward_parts, putFloat64)
  putNullable(rows, t.return, putFloat64)
  putNullable(rows, t.advantage, putFloat64)
  putNullable(rows, t.weight, putFloat64)
  putString(rows, t.credit_method)
  putUInt8(rows, 1) // credit_version: NULL until the group is credited
  putUInt64(rows, call.start_time)
  putUInt64(rows, durationOf(call))
  putUsage(rows, call.usage ?? {})
  putArray(rows, t.flags, putString)
  putUInt64(rows, insertedAt)
  rows.count++
}

/** 0 where no start is known: what is left of an end would be its whole time since 1970. */
const durationOf = ({ start_time, end_time }: Transition['call']): bigint =>
  start_time > 0n && end_time > start_time ? end_time - start_time : 0n

const isCount = (n: number | null): n is number => Number.isSafeInteger(n) && n! >= 0

/** Integers beyond 2^53 become text. They are rare, and asking for them value by value costs more than the rest. */
function json(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return JSON.stringify(value, (_key, v: unknown) => (typeof v === 'bigint' ? String(v) : v))
  }
}

function newMessages({ call }: Transition, parent: Transition | undefined): readonly Message[] {
  return parent ? call.prompt.slice(parent.call.prompt.length + (parent.call.completion ? 1 : 0)) : call.prompt
}

/** What tokens this prompt shares with the parent's prompt and response, and what follows. */
function newTokens({ call }: Transition, parent: Transition | undefined): { prefix: number; suffix: readonly number[] } {
  const prompt = call.tokens?.prompt ?? []
  const before = parent?.call.tokens
  if (!before) return { prefix: 0, suffix: prompt }
  const past = before.prompt.length
  let prefix = 0
  while (prefix < prompt.length && prompt[prefix] === (prefix < past ? before.prompt[prefix] : before.response[prefix - past])) prefix++
  return { prefix, suffix: prompt.slice(prefix) }
}

function putUsage(rows: Rows, usage: Usage): void {
  const counts = Object.entries(usage).filter(([, n]) => isCount(n))
  putVarint(rows, counts.length)
  for (const [name, n] of counts) {
    putString(rows, name)
    putUInt64(rows, n)
  }
}
