// The flags --since and --until, as every command that has them understands them.

import { UsageError } from './flags.ts'

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds since the epoch. */
export function sinceOf(text: string, now: number, flag = '--since'): number {
  const [, n, unit] = /^(\d+)([mhd])$/.exec(text) ?? []
  const time = unit ? now - Number(n) * UNITS[unit]! : Date.parse(text)
  if (!(time >= 0)) throw new UsageError(`${flag} must be a date, a time or how long ago, such as 2026-11-29 or 7d (got "${text}")`)
  return time
}
