// The outcome, discounted by the decisions that followed: gamma^d * R, where d is the longest chain of policy
// calls that happened after this one. Counted in decisions, never in seconds, so that waiting costs nothing and
// the calls of parallel branches are as far from the end as each other.

import { return_to_go } from './return_to_go.ts'
import type { MethodOptions, Trajectory } from './trajectory.ts'

/** With `include_steps`, and in AIR's mode `bonus`, what a call itself was given is added as it is. */
export function discounted(
  trajectory: Omit<Trajectory, 'next' | 'phi'>,
  { gamma, include_steps }: Omit<MethodOptions, 'lambda'>,
): number[] {
  const nothing = trajectory.calls.map(() => 0)
  const outcomes = return_to_go({ ...trajectory, steps: nothing, air: nothing }, { gamma })
  return outcomes.map((share, i) => share + trajectory.air[i]! + (include_steps ? trajectory.steps[i]! : 0))
}
