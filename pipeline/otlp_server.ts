// What the OTLP servers of every transport have in common: whom they hand a request to, and how a
// failure reads to the client.

import { CODE, type Encoding, type Failure } from '../data/otlp_answer.ts'
import { Malformed } from '../data/scan.ts'
import type { Lease } from './admission.ts'
import { Unauthenticated } from './auth.ts'
import { Permanent, Refused } from './component.ts'
import { BodyError } from './http_body.ts'

export type OtlpSignal = 'traces' | 'logs'

/**
 * Takes one export request, reading its body first, which charges the lease for its memory. Resolves with the answer once all that was not
 * rejected is taken for good.
 */
export type Take = (signal: OtlpSignal, encoding: Encoding, read: (lease: Lease) => Buffer | Promise<Buffer>) => Promise<Uint8Array>

/** How an error reads to the client. One that nobody called permanent may pass, so the client is to keep its data. */
export function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof Malformed) return { code: CODE.invalid_argument, message, field: error.field }
  if (error instanceof BodyError) return { code: CODE.invalid_argument, message }
  if (error instanceof Unauthenticated) return { code: CODE.unauthenticated, message }
  if (error instanceof Permanent) return { code: CODE.internal, message }
  if (error instanceof Refused) return { code: CODE.unavailable, message, retryAfterMs: error.retryAfterMs }
  return { code: CODE.unavailable, message }
}
