// Whether ClickHouse can be reached. While it cannot, work is refused at once, so that clients wait
// instead of this process filling up; it is asked again until it answers, and then all goes on.

import { setTimeout as sleep } from 'node:timers/promises'

import { ClickHouseError } from '@clickhouse/client'

import { Unavailable } from './storage.ts'

export interface Availability {
  /**
   * Runs an attempt, again for a while when it fails for reasons that pass; then rejects as Unavailable. It must do no harm when run
   * twice. That `abort` fired says nothing about ClickHouse: it rejects then, and that is all.
   */
  run<T>(attempt: () => Promise<T>, abort?: AbortSignal): Promise<T>
  /** Makes contact. Rejects when ClickHouse answers but will not have us; resolves when it is merely away. */
  start(): Promise<void>
  close(): void
}

export interface AvailabilityOptions {
  /** Asks ClickHouse for a sign of life and makes sure the schema is there. */
  contact(): Promise<void>
  /** Is told what is wrong, and null when nothing is any more. */
  report(problem: string | null): void
}

const RETRY_PAUSES_MS = [50, 200, 500, 1_000, 2_000]
const CONTACT_EVERY_MS = 1_000

/** Error codes of ClickHouse that pass: it is busy, short of memory or disk, or starting. */
const PASSING = new Set(
  ['TIMEOUT_EXCEEDED', 'TOO_MANY_SIMULTANEOUS_QUERIES', 'SOCKET_TIMEOUT', 'NETWORK_ERROR', 'MEMORY_LIMIT_EXCEEDED'].concat([
    'NOT_ENOUGH_SPACE',
    'TOO_MANY_PARTS',
    'UNKNOWN_STATUS_OF_INSERT',
    'TABLE_IS_READ_ONLY',
    'ABORTED',
    'KEEPER_EXCEPTION',
    'SYSTEM_ERROR',
  ]),
)

export function availability({ contact, report }: AvailabilityOptions): Availability {
  let away: string | null = 'not reached yet'
  let closed = false
  let recovering = false
  let reported: string | null = null

  function say(problem: string | null): void {
    if (problem !== reported) report((reported = problem))
  }

  async function run<T>(attempt: () => Promise<T>, abort?: AbortSignal): Promise<T> {
    for (let failures = 0; ; failures++) {
      if (away !== null) throw new Unavailable(`ClickHouse cannot be reached: ${away}`)
      try {
        const result = await attempt()
        say(null)
        return result
      } catch (error) {
        abort?.throwIfAborted()
        if (passes(error) && failures < RETRY_PAUSES_MS.length) {
          await sleep(RETRY_PAUSES_MS[failures], undefined, { signal: abort })
          continue
        }
        const { message } = error as Error
        say(`ClickHouse does not do its work: ${message}`)
        if (!(error instanceof ClickHouseError)) void recover(message)
        throw new Unavailable(`ClickHouse does not do its work: ${message}`, CONTACT_EVERY_MS, { cause: error })
      }
    }
  }

  async function start(): Promise<void> {
    try {
      await contact()
      away = null
    } catch (error) {
      if (error instanceof ClickHouseError && !passes(error)) throw error
      void recover((error as Error).message)
    }
  }

  async function recover(reason: string): Promise<void> {
    away = reason
    if (recovering) return
    recovering = true
    while (!closed && away !== null) {
      say(`ClickHouse cannot be reached: ${away}`)
      await sleep(CONTACT_EVERY_MS)
      try {
        if (!closed) await contact()
        away = null
        say(null)
      } catch (error) {
        away = (error as Error).message
      }
    }
    recovering = false
  }

  return { run, start, close: () => void (closed = true) }
}

/** What is no answer of ClickHouse is a matter of the network. */
export const passes = (error: unknown): boolean => !(error instanceof ClickHouseError) || PASSING.has(error.type ?? '')
