// What of a rollout goes into which table.

import type { Reject, Reward, Rollout } from '../data/rollout.ts'
import { versionOf } from './bookkeeping.ts'
import { revisionStored, rewardsStored, type IsStored } from './is_stored.ts'
import { outline, type Outlined } from './outline.ts'
import {
  KEY_COLUMNS,
  MEMBER_COLUMNS,
  OUTLINE_COLUMNS,
  putKeys,
  putMembers,
  putOutline,
  putReject,
  putReward,
  putRewardTarget,
  putRolloutRow,
  rolloutRow,
  REJECT_COLUMNS,
  REWARD_COLUMNS,
  REWARD_TARGET_COLUMNS,
  ROLLOUT_COLUMNS,
} from './rollout_rows.ts'
import type { Rows } from './row_binary.ts'
import { putTransitions, TRANSITION_COLUMNS } from './transition_rows.ts'

export interface Named {
  readonly name: string
  readonly columns: string
  /** Of a table whose rows may not be there twice, and which therefore keeps the tokens of blocks. */
  isStored?(rows: readonly Row[]): IsStored
}

export interface Row {
  /** Whose row it is. */
  readonly of: Revision
  readonly about: About | undefined
}

export type Revision = Pick<Rollout, 'tenant' | 'rollout_id' | 'attempt_id' | 'revision'>

interface About extends Partial<Reject> {
  /** Of a reward, as versionOf has it. */
  readonly reward?: string
}

/** Rows of one table. */
export interface Table<T> extends Named {
  /** What of a rollout is stored together or not at all. */
  of(rollout: Rollout): readonly T[]
  put(rows: Rows, rollout: Rollout, one: T, at: number): void
  /** The call or span that it is about. */
  about?(one: T): About
}

export const TRANSITIONS: Table<Rollout> = {
  ...{ name: 'transition_rows', columns: TRANSITION_COLUMNS },
  of: (rollout) => (rollout.transitions.length > 0 ? [rollout] : []),
  put: (rows, rollout, _, at) => putTransitions(rows, rollout, at),
  isStored: ([first]) => first && revisionStored('transition_rows', first.of),
}
export const REJECTS: Table<Reject> = {
  ...{ name: 'rejects', columns: REJECT_COLUMNS, of: ({ rejects }) => rejects, put: putReject },
  about: (reject) => reject,
  isStored: ([first]) => first && revisionStored('rejects', first.of, first.about),
}
export const REWARDS: Table<Reward> = {
  ...{ name: 'rewards', columns: REWARD_COLUMNS, of: ({ rewards }) => rewards, put: putReward },
  about: (reward) => ({ span_id: reward.span_id, reward: versionOf(reward) }),
  isStored: (rows) => () => rewardsStored(rows.flatMap(({ about }) => about?.reward ?? [])),
}
export const REWARD_TARGETS: Table<Reward> = {
  ...{ name: 'reward_targets', columns: REWARD_TARGET_COLUMNS, of: ({ rewards }) => rewards, put: putRewardTarget },
  about: ({ span_id }) => ({ span_id }),
}
export const MEMBERS: Table<Rollout> = {
  ...{ name: 'rollout_members', columns: MEMBER_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putMembers(rows, rollout, at),
}
export const KEYS: Table<Rollout> = {
  ...{ name: 'rollout_keys', columns: KEY_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putKeys(rows, rollout, at),
}
export const OUTLINES: Table<Rollout> = {
  ...{ name: 'outlines', columns: OUTLINE_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putOutline(rows, rollout, outlineOf(rollout).outline, at),
  isStored: ([first]) => first && revisionStored('outlines', first.of),
}
export const ROLLOUTS: Table<Rollout> = {
  ...{ name: 'rollouts', columns: ROLLOUT_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putRolloutRow(rows, rolloutRow(rollout, outlineOf(rollout)), at),
}

/** Both of these tables ask for it. */
const outlined = new WeakMap<Rollout, Outlined>()
function outlineOf(rollout: Rollout): Outlined {
  const known = outlined.get(rollout) ?? outline(rollout)
  outlined.set(rollout, known)
  return known
}
