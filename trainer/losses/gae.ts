// Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, eq. 16) over one episode, which ends: nothing is expected after
// its last step.

export interface Gae {
  readonly advantages: Float64Array
  /** Advantage + value: what the value should have been. */
  readonly returns: Float64Array
}

export function gae(rewards: ArrayLike<number>, values: ArrayLike<number>, gamma: number, lambda: number): Gae {
  const advantages = new Float64Array(rewards.length)
  let nextValue = 0
  let nextAdvantage = 0
  for (let t = rewards.length - 1; t >= 0; t--) {
    const delta = rewards[t]! + gamma * nextValue - values[t]!
    nextAdvantage = advantages[t] = delta + gamma * lambda * nextAdvantage
    nextValue = values[t]!
  }
  return { advantages, returns: advantages.map((advantage, t) => advantage + values[t]!) }
}
