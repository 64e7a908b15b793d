// Only the calls that nothing follows get the outcome: where the last answer is all that was judged. Parallel branches may
// end in one each.

import type { Chain, MethodOptions } from './trajectory.ts'

/** With `include_steps`, and in AIR's mode `bonus`, what a call itself was given is added as it is. */
export function last({ next, steps, air, outcome }: Chain, { include_steps }: Pick<MethodOptions, 'include_steps'>): number[] {
  return next.map((follower, i) => (follower === -1 ? outcome : 0) + air[i]! + (include_steps ? steps[i]! : 0))
}
