// The flag --since, as every command that has it understands it.

import { UsageError } from './flags.ts'

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds since the epoch. */
export function sinceOf(text: string, now: number): number {
  const [, n, unit] = /^(\d+)([mhd])$/.exec(text) ?? []
  const time = unit ? now - Number(n) * UNITS[unit]! : Date.parse(text)
  if (!(time >= 0)) throw new UsageError(`--since must be a date, a time or how long ago, such as 2026-11-29 or 7d (got "${text}")`)
  return time
}
