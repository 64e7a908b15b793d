// The lambda of gae_turn over a training run. Below 1 it leans on AIR's potential, which helps while successes are rare; at
// 1 the potential cancels out and the optimum is unchanged. So it goes from the one to the other.

const FIRST = 0.8
const UPDATES = 100
const UNKNOWN = 0.95

/** @param version the oldest policy version that answered, which counts the updates before it; null where calls carry none */
export function scheduledLambda(version: number | null): number {
  return version === null ? UNKNOWN : Math.min(1, FIRST + (1 - FIRST) * (version / UPDATES))
}
