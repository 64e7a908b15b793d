/** A number of things that may happen at once, regained at so many a second. The function says whether one more may; `now` in ms. */
export function createAllowance({ atOnce, perSecond }: { atOnce: number; perSecond: number }): (now: number) => boolean {
  let left = atOnce
  let counted = performance.now()
  return (now) => {
    left = Math.min(atOnce, left + ((now - counted) / 1_000) * perSecond) - 1
    counted = now
    return left >= 0
  }
}
