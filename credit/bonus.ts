// AIR's bonus: reward for tools that went well, in a form that cannot be farmed. A tool call pays once, however
// often it is repeated, and all of a rollout's bonuses together stay within the cap: an optimum of reward plus
// bonus is then at most twice the cap from an optimum of the reward alone. Uncapped sums taught a toy agent to
// call tools and nothing else (success 0.99 to 0.11, measured), so they are not offered.

import type { AirClass } from '../data/rollout.ts'

export interface AskedTool {
  /** Index of the policy call that asked for it. */
  readonly call: number
  /** Equal for the same name and arguments. */
  readonly key: string | number
  readonly air_class: AirClass
}

/** What one tool call earns, as a share of half the cap; the first time and when it is repeated. */
const SCORE: Readonly<Record<AirClass, readonly [first: number, again: number]>> = {
  ok: [1, 0],
  empty: [0, 0],
  policy_error: [-1, -0.5],
  env_error: [0, 0],
}

/**
 * @param tools in the order in which they ran; those that one call asked for are averaged
 * @returns the bonus of each of `calls` policy calls
 */
export function bonus(tools: readonly AskedTool[], calls: number, cap: number): number[] {
  const seen = new Set<string>()
  const sums = new Float64Array(calls)
  const counts = new Int32Array(calls)
  for (const { call, key, air_class } of tools) {
    const what = `${air_class} ${key}`
    const [first, again] = SCORE[air_class]
    sums[call]! += seen.has(what) ? again : first
    counts[call]!++
    seen.add(what)
  }
  return capped(
    Array.from(sums, (sum, i) => (sum / Math.max(1, counts[i]!)) * (cap / 2)),
    cap,
  )
}

/** Cuts each amount so that the running sum never leaves [-cap, cap]. */
export function capped(amounts: readonly number[], cap: number): number[] {
  let total = 0
  return amounts.map((amount) => {
    const before = total
    total = Math.min(cap, Math.max(-cap, before + amount))
    return total - before
  })
}
