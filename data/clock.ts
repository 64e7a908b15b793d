// The clock by which things become due and arrivals are stamped: the time of day, but one that never goes back.

/** A stamp further ahead was made by a clock that was wrong then; the one of today is believed. */
const BELIEVED_MS = 86_400_000

let ahead = -Infinity

/** Milliseconds since the epoch. Where the clock is set back, time goes on as if it had not been; where it is set forward, so is this. */
export function steadyNow(): number {
  const running = performance.now()
  ahead = Math.max(ahead, Date.now() - running)
  return Math.round(ahead + running)
}

/** The latest stamp of an earlier process: where the clock was set back between the two, time goes on from there. */
export function resumeClock(stamp: number): void {
  const lead = stamp - steadyNow()
  if (lead > 0 && lead < BELIEVED_MS) ahead += lead
}
