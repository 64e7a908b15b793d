// What to do when ClickHouse takes in everything but some rows: those at fault are found by halving, and the others are stored as if
// nothing had happened.

import { ClickHouseError } from '@clickhouse/client'

import { passes } from './availability.ts'
import { Unavailable } from './storage.ts'

/** What stands in `rejects` as the reason; the server's own words are its detail. */
export const REFUSED = 'refused_by_clickhouse'

/** A row, or several that are stored together or not at all. */
export interface Refused<R> {
  readonly row: R
  readonly error: unknown
}

/** More rows of one insert are not put aside: then it is the server that needs mending, and what came stays where it came from. */
const MAX_REFUSED = 32

/**
 * Stores what can be stored of rows that were refused together with this error.
 * @param store must store rows once that it is given again, and nothing when it is given none
 * @returns those that are refused alone. Rejects when that is no matter of the rows.
 */
export async function storeApart<R>(
  rows: readonly R[],
  error: unknown,
  store: (rows: readonly R[]) => Promise<void>,
): Promise<Refused<R>[]> {
  if (!isRefusal(error)) throw error
  // A table that is missing or a user without rights refuses an insert of nothing as well.
  await store([])
  return halved(rows, error, MAX_REFUSED)

  /** `some` were refused together. */
  async function halved(some: readonly R[], error: unknown, most: number): Promise<Refused<R>[]> {
    if (some.length === 1) return [{ row: some[0]!, error }]
    const middle = some.length >> 1
    const refused: Refused<R>[] = []
    for (const half of [some.slice(0, middle), some.slice(middle)]) {
      refused.push(...(await tried(half, most - refused.length)))
      if (refused.length > most) throw error
    }
    return refused
  }

  async function tried(some: readonly R[], most: number): Promise<Refused<R>[]> {
    try {
      await store(some)
      return []
    } catch (error) {
      if (!isRefusal(error)) throw error
      return halved(some, error, most)
    }
  }
}

/** ClickHouse has answered, and would answer the same again. */
function isRefusal(error: unknown): boolean {
  const answer = answerIn(error)
  return answer instanceof ClickHouseError && !passes(answer)
}

/** What the server said, by itself or as the cause of what is made of it on the way. */
const answerIn = (error: unknown): unknown => (error instanceof Unavailable ? error.cause : error)

/** The server's reason. */
export const reasonOf = ({ error }: Refused<unknown>): string => (answerIn(error) as ClickHouseError).message
