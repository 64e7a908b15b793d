// Which rollout a trace belongs to: the one that a span of it names, else that of the trace it links to or shares a call with, else one of its
// own.

import { latest } from './latest.ts'
import { recentCalls, type CallRecord } from './recent_calls.ts'
import { isWithoutAttempt, routeKey, splitKey } from './routing.ts'

export interface TraceOwners {
  /** Key of the rollout; `own` where nothing says another. */
  of(trace: string, own?: string): string
  /** The first to claim a trace has it, and what had come of it before. */
  claim(trace: string, key: string): void
  /** Whatever was claimed before. */
  give(trace: string, key: string): void
  /** A trace that nothing else claims goes where the first trace that it links to goes, whichever of them comes first. */
  follow(trace: string, linked: string): void
  /** Traces that hold records of one call are of one rollout, unless both are claimed already. */
  holds(trace: string, call: CallRecord): void
}

/** Traces whose rollout is remembered, so that spans without a hint follow those that had one. */
const REMEMBERED = 50_000
/** Calls whose records are remembered, so that one in another trace finds them: two instrumentations export within seconds of each other. */
const CALLS = 10_000
/** Traces in a row, each linked to the one before, that are one rollout. */
const MAX_LINKS = 100

/** @param claimed the trace, until now a rollout of its own, belongs to the rollout of this key */
export function traceOwners(claimed: (own: string, key: string) => void): TraceOwners {
  const owners = latest<string>(REMEMBERED)
  const recordedBefore = recentCalls(CALLS)

  function of(trace: string, own = routeKey(trace, '')): string {
    let key = owners.get(trace)
    if (key === undefined) return own
    // Along links: a trace may have followed another before that one was claimed.
    for (let steps = 0; steps < MAX_LINKS; steps++) {
      const next: string | undefined = isWithoutAttempt(key) ? owners.get(splitKey(key).rollout_id) : undefined
      if (next === undefined || next === key) break
      key = next
    }
    return key
  }

  function claim(trace: string, key: string): void {
    if (!trace || owners.has(trace)) return
    owners.set(trace, key)
    claimed(routeKey(trace, ''), key)
  }

  function follow(trace: string, linked: string): void {
    const key = of(linked)
    if (!owners.has(trace) && key !== routeKey(trace, '')) claim(trace, key)
  }

  function holds(trace: string, call: CallRecord): void {
    const other = recordedBefore(trace, call)
    if (other === undefined || other === trace) return
    follow(trace, other)
    follow(other, trace)
  }

  return { of, claim, give: owners.set, follow, holds }
}
