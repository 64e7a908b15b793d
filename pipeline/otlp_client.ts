// What the OTLP exporters of both transports have in common: options, the bytes they send, and how an answer reads to the queue.

import type { PartialSuccess } from '../data/otlp_reply.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { clientTls } from './client_tls.ts'
import { Permanent, Refused, type Context } from './component.ts'
import { map, oneOf, secret } from './schema.ts'
import { sending } from './sending.ts'
import { UNIT } from './size.ts'

export const otlpClient = {
  compression: oneOf(['gzip', 'none'], 'How requests are compressed.', { default: 'gzip' }),
  headers: map(secret('Value of the header.'), 'Headers (gRPC metadata) of each request.', { default: {} }),
  tls: clientTls,
  ...sending,
}

/** Several requests as one: protobuf messages merge by concatenation, so nothing is decoded. */
export const merged = (batches: readonly SpanBatch[]): Buffer =>
  batches.length === 1 ? batches[0]!.body : Buffer.concat(batches.map(({ body }) => body))

/** The server has the rest, so that nothing is sent again: it is said and counted. */
export function reportPartial(partial: PartialSuccess | null, signal: 'traces' | 'logs', { log, count }: Context): void {
  if (!partial) return
  log.warn('Partial success: the server did not take everything', { message: partial.message, rejected: partial.rejected })
  if (partial.rejected > 0) count(`leyden_exporter_rejected_${UNIT[signal]}`, partial.rejected, { data_type: signal })
}

/** What failed for a reason that may pass is tried again, no sooner than the server asks. */
export function failure(message: string, retryable: boolean, retryAfterMs: number | undefined): Error {
  if (!retryable) return new Permanent(message)
  return retryAfterMs === undefined ? new Error(message) : new Refused(message, retryAfterMs)
}
