// Trying again, and for how long one try may take.

import { setTimeout as sleep } from 'node:timers/promises'

import { Permanent, Refused } from './component.ts'
import type { Retrying } from './sending.ts'

/**
 * Retries are used up: every retry further up passes this on, so that waits do not multiply. To a receiver
 * it is a refusal, which its client may send again later.
 */
export class GaveUp extends Refused {
  override name = 'GaveUp'
}

/**
 * Tries until it succeeds, until the error is Permanent, or until `max_elapsed_time` would pass before the next try.
 * When `stopping` fires, a wait ends early and the next try is the last one.
 */
export async function retry(
  attempt: () => Promise<void>,
  { enabled, initial_interval, randomization_factor, multiplier, max_interval, max_elapsed_time }: Retrying,
  stopping: AbortSignal,
  onRetry: (error: unknown, waitMs: number) => void = () => {},
): Promise<void> {
  const began = performance.now()
  let interval = initial_interval
  for (;;) {
    const last = !enabled || stopping.aborted
    try {
      return await attempt()
    } catch (error) {
      if (error instanceof Permanent || error instanceof GaveUp) throw error
      const asked = error instanceof Refused ? error.retryAfterMs : undefined
      const wait = Math.max(interval * (1 + randomization_factor * (2 * Math.random() - 1)), asked ?? 0)
      const tooLate = max_elapsed_time > 0 && performance.now() - began + wait > max_elapsed_time
      if (last || tooLate) throw new GaveUp(`${enabled ? 'no more retries left: ' : ''}${messageOf(error)}`, asked, { cause: error })
      onRetry(error, wait)
      await pause(wait, stopping)
      interval = Math.min(interval * multiplier, max_interval)
    }
  }
}

/**
 * Gives one try so many milliseconds (0: no limit), then tells it to stop. Settles when the try has: until then it may read what it
 * was given, and another one would do its work twice.
 */
export async function within(ms: number, attempt: (abort: AbortSignal) => Promise<void>): Promise<void> {
  const abort = new AbortController()
  const timer = ms === 0 ? undefined : setTimeout(() => abort.abort(new Error(`timed out after ${ms} ms`)), ms)
  try {
    await attempt(abort.signal)
  } catch (error) {
    throw abort.signal.aborted ? abort.signal.reason : error
  } finally {
    clearTimeout(timer)
  }
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Waits, or less when the signal fires. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {})
}
