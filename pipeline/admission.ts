// Bounds the memory of the requests that a receiver is reading or has handed on, all of them together. What does not fit is refused
// before it is decoded, and the client told to come back: a queue would only hold more of them.

import { Refused } from './component.ts'
import { group, number, type Config } from './schema.ts'

const MIB = 1024 * 1024

export const admission = group(
  {
    request_limit_mib: number('Memory for the requests that are being read or stored, in MiB; more are refused until some are answered.', {
      default: 256,
      min: 1,
    }),
  },
  'How much is taken at the same time.',
)

/** What one request holds. */
export interface Lease {
  /** So many bytes more (negative: fewer). Throws Refused when there is no room. */
  add(bytes: number): void
  /** Whether there is room for so many more. */
  fits(bytes: number): boolean
  /** Gives back whatever it holds. */
  end(): void
}

/** `refused` is called for each request that finds no room. */
export function createAdmission({ request_limit_mib }: Config<{ a: typeof admission }>['a'], refused: () => void): () => Lease {
  const limit = request_limit_mib * MIB
  let used = 0
  return () => {
    let held = 0
    return {
      fits: (bytes) => used + bytes <= limit,
      add(bytes) {
        if (bytes > 0 && used + bytes > limit) {
          refused()
          throw new Refused(`requests of ${Math.round(used / MIB)} MiB are under way, and no more than ${request_limit_mib} MiB may be`)
        }
        used += bytes
        held += bytes
      },
      end() {
        used -= held
        held = 0
      },
    }
  }
}
