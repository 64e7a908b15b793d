// Group advantages come from the credit step. What an algorithm adds to a return (a KL, a punishment of length) needs the same baseline,
// taken over the turns at hand: credit/group.ts, so that there is one way to do it.

import { groupAdvantages } from '../credit/group.ts'
import { rolloutKey } from './batch.ts'
import type { TurnSpan } from './row.ts'

/**
 * How far each turn's value is above its group's baseline.
 * @param values one per turn
 */
export function aboveGroup(turns: readonly TurnSpan[], values: ArrayLike<number>, leaveOneOut: boolean): Float64Array {
  const groups = new Map<string, Map<string, number[]>>()
  for (const [i, { turn }] of turns.entries()) {
    const rollouts = groups.get(turn.group_id) ?? new Map<string, number[]>()
    groups.set(turn.group_id, rollouts)
    rollouts.set(rolloutKey(turn), [...(rollouts.get(rolloutKey(turn)) ?? []), i])
  }
  const above = new Float64Array(turns.length)
  for (const rollouts of groups.values()) {
    const members = [...rollouts].map(([rollout_id, own]) => ({
      rollout_id,
      status: 'succeeded' as const,
      excluded: false,
      transitions: own.map((i) => ({ agent: turns[i]!.turn.agent, return: values[i]! })),
    }))
    const { advantages } = groupAdvantages(members, { baseline: 'auto', normalize: 'none', min_group: 2, leave_one_out: leaveOneOut })
    for (const [m, own] of [...rollouts.values()].entries()) for (const [j, i] of own.entries()) above[i] = advantages[m]![j]!
  }
  return above
}
