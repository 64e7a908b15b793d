/** Lets a thing happen so often at once, and regains it at so many a second; beyond that it throws. `now` in milliseconds. */
export function createAllowance(
  { atOnce, perSecond }: { atOnce: number; perSecond: number },
  exceeded: () => Error,
): (now: number) => void {
  let left = atOnce
  let counted = performance.now()
  return (now) => {
    left = Math.min(atOnce, left + ((now - counted) / 1_000) * perSecond) - 1
    counted = now
    if (left < 0) throw exceeded()
  }
}
