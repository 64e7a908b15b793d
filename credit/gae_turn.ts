// Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, equation 16) with turns for steps
// and AIR's potential for the value function:
//   delta_t = r_t + gamma * phi_next - phi_t
//   gae_t   = delta_t + gamma * lambda * gae_next
//   return  = gae_t + phi_t                            (the lambda-return)
// next is the earliest-starting policy call that happened after; a call without one gets the outcome, and
// potential and gae behind it are 0. At lambda 1 phi cancels out exactly: potential-based shaping (Ng et al. 1999).

import type { Chain } from './trajectory.ts'

export function gae_turn({ next, steps, air, phi, outcome }: Chain, { gamma, lambda }: { gamma: number; lambda: number }): number[] {
  const gae = new Array<number>(next.length)

  for (const i of nextFirst(next)) {
    const n = next[i]!
    const reward = steps[i]! + air[i]! + (n === -1 ? outcome : 0)
    const delta = reward + gamma * (n === -1 ? 0 : phi[n]!) - phi[i]!
    gae[i] = delta + gamma * lambda * (n === -1 ? 0 : gae[n]!)
  }
  return gae.map((value, i) => value + phi[i]!)
}

/** Every call after its next. */
function nextFirst(next: readonly number[]): number[] {
  const done = new Uint8Array(next.length)
  const order: number[] = []
  const way: number[] = []
  for (let i = 0; i < next.length; i++) {
    for (let n = i; n !== -1 && !done[n]; n = next[n]!) {
      done[n] = 1
      way.push(n)
    }
    while (way.length > 0) order.push(way.pop()!)
  }
  return order
}
