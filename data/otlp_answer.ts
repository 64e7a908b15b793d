// What a receiver of OTLP answers: the response to an export, or why there is none as a
// google.rpc.Status, both in the encoding of the request.

import { encode } from './otlp_json.ts'
import { BadRequest, ExportLogsServiceResponse, ExportTraceServiceResponse, RetryInfo, RpcStatus } from './otlp_messages.ts'
import type { Rejected } from './scan.ts'

export type Encoding = 'protobuf' | 'json'

/** google.rpc codes in use. */
export const CODE = { invalid_argument: 3, unimplemented: 12, internal: 13, unavailable: 14, unauthenticated: 16 } as const

export interface Failure {
  readonly code: number
  readonly message: string
  /** When a retry may help. */
  readonly retryAfterMs?: number
  /** The member of a JSON request that is at fault. */
  readonly field?: string
}

/** Rejected items are named in the answer, so many at most: it has to stay small. */
const NAMED = 20

/** Empty on full success, as the specification wants it. */
export function exportResponse(signal: 'traces' | 'logs', rejected: readonly Rejected[], encoding: Encoding): Buffer {
  if (rejected.length === 0) return FULL_SUCCESS[encoding]
  const [message, counter] =
    signal === 'traces' ? [ExportTraceServiceResponse, 'rejectedSpans'] : [ExportLogsServiceResponse, 'rejectedLogRecords']
  const partialSuccess = { [counter]: String(rejected.length), errorMessage: summary(rejected) }
  const response = { partialSuccess }
  return encoding === 'json' ? Buffer.from(JSON.stringify(response)) : encode(message, response)
}

const FULL_SUCCESS: Readonly<Record<Encoding, Buffer>> = { protobuf: Buffer.alloc(0), json: Buffer.from('{}') }

function summary(rejected: readonly Rejected[]): string {
  const named = rejected.slice(0, NAMED).map(({ reason }) => reason)
  const more = rejected.length - named.length
  return named.join('; ') + (more > 0 ? `; and ${more} more` : '')
}

export function rpcStatus(failure: Failure, encoding: Encoding): Buffer {
  const { code, message } = failure
  const details = detailsOf(failure)
  if (encoding === 'protobuf') {
    const packed = details.map(({ type, fields }) => ({ typeUrl: TYPE + type.name, value: encode(type, fields).toString('base64') }))
    return encode(RpcStatus, { code, message, details: packed })
  }
  const inJson = details.map(({ type, json }) => ({ '@type': TYPE + type.name, ...json }))
  return Buffer.from(JSON.stringify({ code, message, ...(inJson.length > 0 && { details: inJson }) }))
}

const TYPE = 'type.googleapis.com/google.rpc.'

function detailsOf({ message, retryAfterMs, field }: Failure) {
  const details = []
  if (retryAfterMs !== undefined) {
    const seconds = Math.floor(retryAfterMs / 1_000)
    const nanos = Math.round((retryAfterMs % 1_000) * 1e6)
    details.push({ type: RetryInfo, fields: { retryDelay: { seconds, nanos } }, json: { retryDelay: `${retryAfterMs / 1_000}s` } })
  }
  if (field) {
    const violations = { fieldViolations: [{ field, description: message }] }
    details.push({ type: BadRequest, fields: violations, json: violations })
  }
  return details
}
