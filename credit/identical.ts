// Every call gets the outcome: credit as the Agent Lightning paper has it (arXiv 2508.03680, section 3.3.2),
// and as all of its releases do it.

import type { Chain } from './trajectory.ts'

/** With `include_steps`, and in AIR's mode `bonus`, the sum of what was given on the way is added for all. */
export function identical({ outcome, steps, air }: Chain, { include_steps }: { include_steps: boolean }): number[] {
  const given = sum(air) + (include_steps ? sum(steps) : 0)
  return steps.map(() => outcome + given)
}

const sum = (values: readonly number[]) => values.reduce((total, v) => total + v, 0)
