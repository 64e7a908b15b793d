// What an OTLP server answered to an export, for those who send. Its status decides; bytes that are no protobuf say nothing.

import { decode } from './otlp_json.ts'
import { ExportLogsServiceResponse, ExportTraceServiceResponse, RetryInfo, RpcStatus, type Message } from './otlp_messages.ts'
import { Malformed } from './wire.ts'

/** What the server did not take of a request that it took. A message without rejected items is a warning. */
export interface PartialSuccess {
  readonly rejected: number
  readonly message: string
}

/** Null on full success. */
export function partialSuccess(signal: 'traces' | 'logs', response: Buffer): PartialSuccess | null {
  const [message, counter] =
    signal === 'traces' ? [ExportTraceServiceResponse, 'rejectedSpans'] : [ExportLogsServiceResponse, 'rejectedLogRecords']
  const { partialSuccess: partial } = read(message, response) as { partialSuccess?: Record<string, string> }
  const rejected = Number(partial?.[counter] ?? 0)
  const said = partial?.errorMessage ?? ''
  return rejected > 0 || said !== '' ? { rejected, message: said } : null
}

interface Status {
  readonly message?: string
  readonly details?: readonly { readonly typeUrl?: string; readonly value?: string }[]
}

/** A google.rpc.Status: what it says, and the delay of its RetryInfo. */
export function readStatus(bytes: Buffer): { message: string; retryAfterMs: number | undefined } {
  const { message = '', details = [] } = read(RpcStatus, bytes) as Status
  const info = details.find(({ typeUrl = '' }) => typeUrl.endsWith('/google.rpc.RetryInfo'))
  return { message, retryAfterMs: info && delayOf(Buffer.from(info.value ?? '', 'base64')) }
}

function delayOf(info: Buffer): number {
  const { retryDelay } = read(RetryInfo, info) as { retryDelay?: { seconds?: string; nanos?: number } }
  return Number(retryDelay?.seconds ?? 0) * 1_000 + (retryDelay?.nanos ?? 0) / 1e6
}

function read(message: Message, bytes: Buffer): object {
  try {
    return decode(message, bytes)
  } catch (error) {
    if (error instanceof Malformed) return {}
    throw error
  }
}
