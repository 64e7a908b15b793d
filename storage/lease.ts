// What only one process may do for a database, such as writing credit: whoever does it holds a lease, a row that the holder renews. ClickHouse has no
// compare-and-set, so each writes down that it wants the lease, then looks who wanted it first; both see the same. Time is the
// server's. The lease of a process of this machine that is gone ends at once, so that a restart need not wait for it.

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouseClient } from '@clickhouse/client'

import { SMALL_STATEMENT } from './literals.ts'
import { Unavailable } from './storage.ts'

export interface Lease {
  /** Resolves when this process holds it. Rejects as Unavailable, and says who does, when it is another. */
  hold(): Promise<void>
  release(): Promise<void>
}

export interface LeaseOptions {
  readonly client: ClickHouseClient
  readonly name: string
  /** What its holder does, for others to read: "credit is written". */
  readonly what: string
  run<T>(attempt: () => Promise<T>): Promise<T>
  /** Is told who holds it instead; null when that is over. */
  report(problem: string | null): void
}

/** Name of the lease that whoever trains a policy holds. */
export const trainerLease = (policy: string): string => `trainer ${policy}`

const LASTS_S = 30
const RENEW_MS = 10_000
/** Before it ends, the holder no longer trusts its own. */
const MARGIN_MS = 5_000
const RETRY_MS = 2_000
/** A row that another wrote earlier is seen by then. */
const UNDER_WAY_MS = 100

interface Holder {
  readonly holder: string
  readonly host: string
  readonly pid: number
  readonly since: string
}

export function lease({ client, name, what, run, report }: LeaseOptions): Lease {
  const place = { name, host: hostname(), pid: process.pid }
  /** Another each time it is asked for anew, since who asked first has it. */
  let holder = randomUUID()
  let until = 0
  let renewing: NodeJS.Timeout | undefined
  let reported = false

  async function hold(): Promise<void> {
    if (performance.now() < until - MARGIN_MS) return
    const anew = until === 0
    await write(LASTS_S)
    if (anew) await sleep(UNDER_WAY_MS)
    const [first] = (await holders()).filter(isAlive)
    if (first && first.holder !== holder) {
      await giveUp()
      const problem = `${what} by process ${first.pid} on ${first.host} since ${first.since}: only one may, so stop it first`
      report(problem)
      reported = true
      throw new Unavailable(problem, RETRY_MS)
    }
    if (reported) report(null)
    reported = false
    renewing ??= setInterval(() => void write(LASTS_S).catch(() => {}), RENEW_MS).unref() // else it ends by itself
  }

  async function giveUp(): Promise<void> {
    await write(0)
    until = 0
    holder = randomUUID()
  }

  async function write(seconds: number): Promise<void> {
    const asked = performance.now()
    const query = `
      INSERT INTO leases (name, holder, host, pid, until, renewed_at)
      SELECT {name:String}, {holder:String}, {host:String}, {pid:UInt32}, now64(3) + toIntervalSecond({seconds:UInt32}), now64(3)`
    await run(() => client.command({ query, query_params: { ...place, holder, seconds }, clickhouse_settings: SMALL_STATEMENT }))
    until = asked + seconds * 1_000
  }

  /** The one who asked first comes first. */
  async function holders(): Promise<Holder[]> {
    const query = `
      SELECT holder, any(host) AS host, any(pid) AS pid, formatDateTime(min(renewed_at), '%F %T') AS since
      FROM leases WHERE name = {name:String} GROUP BY holder HAVING argMax(until, renewed_at) > now64(3) ORDER BY min(renewed_at), holder`
    return run(async () => (await client.query({ query, query_params: { name }, format: 'JSONEachRow' })).json<Holder>())
  }

  function isAlive({ host, pid }: Holder): boolean {
    if (host !== place.host) return true
    try {
      return process.kill(pid, 0)
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EPERM'
    }
  }

  async function release(): Promise<void> {
    clearInterval(renewing)
    if (until > 0) await giveUp().catch(() => {}) // it ends by itself
  }

  return { hold, release }
}
