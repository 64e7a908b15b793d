import type { Estimate } from './kl.ts'

/** PPO's clipped value loss, ½ max((V−R)², (clip(V, V_old ± c)−R)²), and its derivative by V. */
export function valueLoss(value: number, old: number, target: number, clip: number): Estimate {
  const bounded = Math.min(old + clip, Math.max(old - clip, value))
  const free = value - target
  const held = bounded - target
  // Where the value is not clipped both are the same.
  return held ** 2 > free ** 2 ? { value: held ** 2 / 2, slope: 0 } : { value: free ** 2 / 2, slope: free }
}
