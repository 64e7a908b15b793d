// What the endpoint answers when it cannot answer: OpenAI's form of an error, with the status that its clients decide by whether to
// try again.

import { Unauthenticated } from '../pipeline/auth.ts'
import { Refused } from '../pipeline/component.ts'
import { BodyError } from '../pipeline/http_body.ts'

export interface ErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly param: string | null; readonly code: string | null }
}

export class ApiError extends Error {
  override name = 'ApiError'
  readonly status: number
  readonly code: string | null
  /** The member of the request that is at fault. */
  readonly param: string | null
  /** When a client may come again. */
  readonly retryAfterMs: number | undefined
  constructor(status: number, code: string | null, message: string, more: { param?: string; retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, { cause: more.cause })
    this.status = status
    this.code = code
    this.param = more.param ?? null
    this.retryAfterMs = more.retryAfterMs
  }
}

/** A request that cannot be answered as it is. */
export const invalid = (param: string, message: string, code: string | null = null): ApiError => new ApiError(400, code, message, { param })

export const errorBody = ({ status, message, param, code }: ApiError): ErrorBody => ({
  error: { message, type: typeOf(status), param, code },
})

function typeOf(status: number): string {
  if (status === 429) return 'rate_limit_error'
  if (status === 401) return 'authentication_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** Anything that is thrown while a request is answered. What nobody expected is told to the log, not to the client. */
export function apiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof BodyError) return new ApiError(error.status, null, error.message)
  if (error instanceof Unauthenticated) return new ApiError(401, 'invalid_api_key', error.message)
  if (error instanceof Refused) return new ApiError(503, 'overloaded', error.message, { retryAfterMs: error.retryAfterMs })
  return new ApiError(500, 'internal_error', 'the request failed inside of the endpoint', { cause: error })
}
