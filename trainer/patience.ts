// ClickHouse may be away for a while: a training run waits for it.

import { setTimeout as sleep } from 'node:timers/promises'

import { ClickHouseError } from '@clickhouse/client'

import { passes } from '../storage/availability.ts'

export type Ask = <T>(work: () => Promise<T>) => Promise<T>

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 5_000

/** Repeats work, which must do no harm when done twice, until it succeeds or fails for a reason that does not pass. Ends with `signal`'s reason. */
export function patient(signal: AbortSignal, tell: (problem: string) => void): Ask {
  return async (work) => {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return await work()
      } catch (error) {
        if (!isAway(error) || signal.aborted) throw error
        tell(`ClickHouse cannot be asked: ${(error as Error).message}`)
        await sleep(pause, undefined, { signal })
      }
    }
  }
}

const NETWORK = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN'])

function isAway(error: unknown): boolean {
  if (error instanceof ClickHouseError) return passes(error)
  const { code = '', message } = error as NodeJS.ErrnoException
  return NETWORK.has(code) || message === 'Timeout error.' // the client's own
}
