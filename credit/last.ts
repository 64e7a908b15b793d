// Only the calls that nothing follows get the outcome: where the last answer is all that was judged. Parallel branches may
// end in one each.

import { nextAfter } from '../data/causality.ts'
import type { MethodOptions, Trajectory } from './trajectory.ts'

/** With `include_steps`, and in AIR's mode `bonus`, what a call itself was given is added as it is. */
export function last(
  { causality, calls, steps, air, outcome }: Trajectory,
  { include_steps }: Pick<MethodOptions, 'include_steps'>,
): number[] {
  const next = nextAfter(causality, calls)
  return calls.map((node, i) => (next[node] === -1 ? outcome : 0) + air[i]! + (include_steps ? steps[i]! : 0))
}
