// A score as it arrives, checked: only a finite number is one, and not a monstrous one.

import type { RewardDimension } from './dialect.ts'
import type { Value } from './span.ts'
import { jsonOf, textOf } from './values.ts'

/** Beyond this, sums and squares of rewards would no longer be numbers. */
export const MAX_REWARD = 1e100

/** Booleans count as 1 and 0. Text is no number, even where it looks like one: who sends it did not mean to score. */
export function score(name: string, value: Value | undefined, label?: Value): RewardDimension {
  const number = typeof value === 'boolean' || typeof value === 'bigint' ? Number(value) : value
  const fits = typeof number === 'number' && Math.abs(number) <= MAX_REWARD
  return {
    name,
    value: fits ? number : null,
    label: textOf(label),
    problem: fits ? undefined : `"${name}" is no number: ${typeof value === 'number' ? String(value) : (jsonOf(value) ?? 'nothing')}`,
  }
}
