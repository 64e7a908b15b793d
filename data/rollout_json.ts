// A rollout as one JSON object, for files and for people.

import type { Rollout } from './rollout.ts'

/** Without the span tree, which is made of the spans; a transition's call is the one of `calls` with its span_id. */
export function rolloutJson({ tree: _, transitions, ...rollout }: Rollout): string {
  return JSON.stringify({ ...rollout, transitions: transitions.map(({ call: __, ...transition }) => transition) }, exact)
}

/** Nanoseconds and other integers beyond 2^53 are strings, as in OTLP/JSON; bytes are base64. */
function exact(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value
}
