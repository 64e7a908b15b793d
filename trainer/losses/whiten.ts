/** Mean 0 and variance 1, with Bessel's correction. What is all alike becomes 0. */
export function whiten(values: ArrayLike<number>): Float64Array {
  const all = Float64Array.from(values)
  if (all.length < 2) return all.fill(0)
  const mean = all.reduce((sum, x) => sum + x, 0) / all.length
  const variance = all.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (all.length - 1)
  return all.map((x) => (x - mean) / Math.sqrt(variance + 1e-8))
}
