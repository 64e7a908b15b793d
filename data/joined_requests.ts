// Small requests read as one. Protobuf messages one after the other are one message that says what all of them say, and what reading costs
// for each request is more than what it costs for each item, where a request has but one.

import { scan } from './scan.ts'
import type { SpanBatch } from './span_batch.ts'
import { Malformed, skip, tag } from './wire.ts'

/**
 * The items of all requests in `body`, of which each ends where `ends` says. Undefined where one of them would be refused, or something in it:
 * then each has to be read by itself, to tell whose fault it is.
 */
export function scanJoined(signal: SpanBatch['signal'], body: Buffer, ends: readonly number[]): SpanBatch | undefined {
  try {
    if (ends.length > 1) checkEnds(body, ends)
    const { batch, rejected } = scan(signal, body)
    return rejected.length === 0 ? batch : undefined
  } catch (error) {
    if (error instanceof Malformed) return undefined
    throw error
  }
}

/** One that is cut short must not be made whole by what follows it. */
function checkEnds(body: Buffer, ends: readonly number[]): void {
  const c = { bytes: body, pos: 0 }
  for (const end of ends) while (c.pos < end) skip(c, tag(c, end), end)
}
