// The clock by which things become due and arrivals are stamped: the time of day, but one that never goes back.

let ahead = -Infinity

/** Milliseconds since the epoch. Where the clock is set back, time goes on as if it had not been; where it is set forward, so is this. */
export function steadyNow(): number {
  const running = performance.now()
  ahead = Math.max(ahead, Date.now() - running)
  return Math.round(ahead + running)
}
