// Credit in order of time, as Agent Lightning gives it: every call is before all that end after it, whatever branch they are
// in. For traces whose parents are not to be trusted; a branch then answers for what its sibling did.

import { causalityOf } from '../data/causality.ts'
import type { Trajectory } from './trajectory.ts'

/** The same with its calls one after the other by their end. */
export function inTimeOrder<T extends Pick<Trajectory, 'causality' | 'calls'>>(trajectory: T): T {
  const { causality, calls } = trajectory
  const { start, end } = causality.tree
  const order = [...calls.keys()].sort((a, b) => end[calls[a]!]! - end[calls[b]!]! || start[calls[a]!]! - start[calls[b]!]! || a - b)
  const rank = new Array<number>(calls.length)
  for (const [position, call] of order.entries()) rank[call] = position
  const count = calls.length
  const times = Float64Array.from(order.keys())
  const line = { count, origin: 0n, parent: new Int32Array(count).fill(-1), start: times, end: times, orphans: 0, cycles: 0 }
  return { ...trajectory, causality: causalityOf(line), calls: rank }
}
