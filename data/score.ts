// A score as it arrives, checked: only a finite number is one.

import type { RewardDimension } from './dialect.ts'
import type { Value } from './span.ts'
import { jsonOf, textOf } from './values.ts'

/** Booleans count as 1 and 0. Text is no number, even where it looks like one: who sends it did not mean to score. */
export function score(name: string, value: Value | undefined, label?: Value): RewardDimension {
  const number = typeof value === 'boolean' || typeof value === 'bigint' ? Number(value) : value
  const fits = typeof number === 'number' && Number.isFinite(number)
  return {
    name,
    value: fits ? number : null,
    label: textOf(label),
    problem: fits ? undefined : `"${name}" is no number: ${typeof value === 'number' ? String(value) : (jsonOf(value) ?? 'nothing')}`,
  }
}
