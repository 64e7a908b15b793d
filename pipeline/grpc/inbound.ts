// What a client may have on its way to us, over all streams of its connection (RFC 9113, 5.2).

import { CODE, ConnectionError, windowUpdate } from './frames.ts'
import type { Output } from './output.ts'

/** A message may be larger; more window comes while it is read. */
export const WINDOW = 16 << 20
/** Window is given back in pieces of this size. */
const STEP = 1 << 20

interface Inbound {
  /** Counts what came. Throws when that is more than the window allowed. */
  take(bytes: number): void
  /** Gives back what was taken, unless there is too little of it or `held` says that the client has to wait. */
  give(): void
}

export function createInbound(output: Output, held: () => boolean): Inbound {
  let window = WINDOW
  let owed = 0
  return {
    take(bytes) {
      window -= bytes
      owed += bytes
      if (window < 0) throw new ConnectionError(CODE.flowControlError, 'more DATA than the window allows')
    },
    give() {
      if (owed < STEP || held()) return
      output.write(windowUpdate(0, owed))
      window += owed
      owed = 0
    },
  }
}
