// Which rollout a trace belongs to: the one that a span of it names, else that of the trace it links to, else one of its own.

import { routeKey, splitKey } from './routing.ts'

export interface TraceOwners {
  /** Key of the rollout. */
  of(trace: string): string
  /** The first to claim a trace has it, and what had come of it before. */
  claim(trace: string, key: string): void
  /** Whatever was claimed before. */
  give(trace: string, key: string): void
  /** A trace that nothing else claims goes where the first trace that it links to goes, whichever of them comes first. */
  follow(trace: string, linked: string): void
}

/** Traces whose rollout is remembered, so that spans without a hint follow those that had one. */
const REMEMBERED = 50_000
/** Traces in a row, each linked to the one before, that are one rollout. */
const MAX_LINKS = 100

/** @param claimed the trace, until now a rollout of its own, belongs to the rollout of this key */
export function traceOwners(claimed: (own: string, key: string) => void): TraceOwners {
  const owners = new Map<string, string>()

  function of(trace: string): string {
    let key = routeKey(trace, '')
    // Along links: a trace may have followed another before that one was claimed.
    for (let steps = 0; steps < MAX_LINKS; steps++) {
      const { rollout_id, attempt_id } = splitKey(key)
      const next = attempt_id === '' ? owners.get(rollout_id) : undefined
      if (next === undefined || next === key) break
      key = next
    }
    return key
  }

  function claim(trace: string, key: string): void {
    if (!trace || owners.has(trace)) return
    if (owners.size >= REMEMBERED) owners.delete(owners.keys().next().value!)
    owners.set(trace, key)
    claimed(routeKey(trace, ''), key)
  }

  return {
    of,
    claim,
    give: (trace, key) => void owners.set(trace, key),
    follow(trace, linked) {
      const key = of(linked)
      if (!owners.has(trace) && key !== routeKey(trace, '')) claim(trace, key)
    },
  }
}
