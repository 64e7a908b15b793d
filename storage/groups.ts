// Which rollouts are compared with each other.

import type { Rollout } from '../data/rollout.ts'

/** The group's id as given; where nobody minted one, the task and the oldest policy version that acted; '' for a rollout on its own. */
export function groupId({ group_id, task_id, transitions }: Pick<Rollout, 'group_id' | 'task_id' | 'transitions'>): string {
  if (group_id || !task_id) return group_id
  const versions = transitions.flatMap(({ policy_version }) => policy_version ?? [])
  return `${task_id}@${versions.length > 0 ? Math.min(...versions) : ''}`
}
