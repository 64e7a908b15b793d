// Which rollouts are compared with each other.

import type { Rollout } from '../data/rollout.ts'

type Grouped = Pick<Rollout, 'group_id' | 'task_id' | 'transitions' | 'credit' | 'keys'>

/**
 * By `credit.group_by`: the task whatever version acted; the value of an attribute; or the group's id as given. Where nobody minted one, the task and the oldest policy version that acted; '' for a
 * rollout on its own.
 */
export function groupId({ group_id, task_id, transitions, credit, keys = [] }: Grouped): string {
  const by = credit?.group_by ?? 'group'
  if (by === 'task') return task_id && `task ${task_id}`
  if (by !== 'group') {
    const value = keys.find(([name]) => name === by)?.[1]
    return value === undefined ? '' : `${by} ${value}`
  }
  if (group_id || !task_id) return group_id
  const versions = transitions.flatMap(({ policy_version }) => policy_version ?? [])
  return `${task_id}@${versions.length > 0 ? Math.min(...versions) : ''}`
}
