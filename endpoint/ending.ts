// What ends an answer before its time: a client that hangs up, an endpoint that stops. As an AbortSignal where one is asked for; to make one for
// every request would cost a tenth of passing it on.

import type { ApiError } from './errors.ts'

export interface Ending {
  /** Undefined as long as it goes on. */
  readonly reason: ApiError | undefined
  /** Called when it ends, at once if it has ended. One listener, the last that was given. */
  listen(ended: (reason: ApiError) => void): void
  signal(): AbortSignal
}

export function createEnding(): Ending & { end(reason: ApiError): void } {
  let reason: ApiError | undefined
  let listener: ((reason: ApiError) => void) | undefined
  let controller: AbortController | undefined
  return {
    get reason() {
      return reason
    },
    listen(ended) {
      listener = ended
      if (reason) ended(reason)
    },
    signal() {
      controller ??= new AbortController()
      if (reason) controller.abort(reason)
      return controller.signal
    },
    end(why) {
      if (reason) return
      reason = why
      listener?.(why)
      controller?.abort(why)
    },
  }
}
