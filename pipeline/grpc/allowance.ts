// What a client may do that costs us and is no call: so often at once, and again at so many a second. Beyond that its connection ends.

import { CODE, ConnectionError } from './frames.ts'
import type { Limit } from './grpc.ts'

interface Allowance {
  readonly atOnce: number
  readonly perSecond: number
}

/** Streams reset by the client or for its mistakes (CVE-2023-44487), and frames that do nothing. */
const RESETS: Allowance = { atOnce: 1_000, perSecond: 100 }
const IDLE_FRAMES: Allowance = { atOnce: 10_000, perSecond: 1_000 }

/** Counts throw when there is too much of it. `now` in milliseconds. */
export function createAllowances(limited: (limit: Limit) => void) {
  function tooMuch(limit: Limit, message: string): ConnectionError {
    limited(limit)
    return new ConnectionError(CODE.enhanceYourCalm, message)
  }

  return {
    tooMuch,
    countReset: allowing(RESETS, () => tooMuch('resets', 'too many streams reset')),
    countIdle: allowing(IDLE_FRAMES, () => tooMuch('idle_frames', 'too many frames that do nothing')),
  }
}

function allowing({ atOnce, perSecond }: Allowance, exceeded: () => Error): (now: number) => void {
  let left = atOnce
  let counted = performance.now()
  return (now) => {
    left = Math.min(atOnce, left + ((now - counted) / 1_000) * perSecond) - 1
    counted = now
    if (left < 0) throw exceeded()
  }
}
