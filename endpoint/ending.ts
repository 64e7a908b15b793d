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
  let listener: ((reason: ApiError) => void) | undefined
  let controller: AbortController | undefined
  // `reason` is no getter: in an object that is made for every request, V8 would define it anew each time.
  const ending = {
    reason: undefined as ApiError | undefined,
    listen(ended: (reason: ApiError) => void) {
      listener = ended
      if (ending.reason) ended(ending.reason)
    },
    signal() {
      controller ??= new AbortController()
      if (ending.reason) controller.abort(ending.reason)
      return controller.signal
    },
    end(why: ApiError) {
      if (ending.reason) return
      ending.reason = why
      listener?.(why)
      controller?.abort(why)
    },
    forget() {
      listener = undefined
    },
  }
  return ending
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
