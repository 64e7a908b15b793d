/** The least of the values that at least a share `q` of all reach up to: the nearest rank. NaN where there are none. */
export function quantile(values: readonly number[], q: number): number {
  return values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(values.length * q) - 1)] ?? NaN
}
