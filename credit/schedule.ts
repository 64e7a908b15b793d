// What AIR's part in credit is over a training run, counted by the version of the policy that acted: it helps while successes are
// rare, and in the end nothing but the outcome should count.

import type { Transition } from '../data/rollout.ts'

const FIRST = 0.8
const UPDATES = 100
const UNKNOWN = 0.95

/**
 * The lambda of gae_turn. Below 1 it leans on AIR's potential; at 1 the potential cancels out and the optimum is unchanged.
 * @param version the oldest policy version that answered, which counts the updates before it; null where calls carry none
 */
export function scheduledLambda(version: number | null): number {
  return version === null ? UNKNOWN : Math.min(1, FIRST + (1 - FIRST) * (version / UPDATES))
}

/** What is left of the bonus, which goes to 0 over so many updates; all of it where that is 0, or where calls carry no version. */
export function annealed(version: number | null, updates: number): number {
  return version === null || updates === 0 ? 1 : Math.max(0, 1 - version / updates)
}

export function oldestVersion(transitions: readonly Pick<Transition, 'policy_version'>[]): number | null {
  const versions = transitions.flatMap(({ policy_version }) => policy_version ?? [])
  return versions.length === 0 ? null : versions.reduce((oldest, version) => Math.min(oldest, version))
}
