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

export interface Ends extends Ending {
  end(reason: ApiError): void
  /** The answer is over: whoever listens is let go of, and with him all that it took. */
  forget(): void
}

export function createEnding(): Ends {
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
    forget() {
      listener = undefined
    },
  }
}

/** The answers under way. */
export interface Open {
  readonly count: number
  /** Returns how to leave, which is done once. */
  enter(ending: Ends): () => void
  end(reason: ApiError): void
}

/**
 * In a list: a Map that many come into and leave makes itself anew all the time, and each that it was refers to the next, so that what they
 * held would last until all garbage is collected.
 */
export function createOpen(): Open {
  const places: { readonly ending: Ends; at: number }[] = []
  return {
    get count() {
      return places.length
    },
    enter(ending) {
      const place = { ending, at: places.length }
      places.push(place)
      return () => {
        const last = places.pop()!
        if (last === place) return
        last.at = place.at
        places[place.at] = last
      }
    },
    end(reason) {
      for (const { ending } of [...places]) ending.end(reason)
    },
  }
}
