// Questions whether a block is stored. A row that no other block has answers it: a block goes into one partition, so it is one part, which is
// there or is not. Rewards may be said again by other blocks: of them all are counted.

import { placeOf } from '../data/routing.ts'
import type { Reject, Rollout } from '../data/rollout.ts'
import { spanId, traceId } from '../data/span_batch.ts'
import { literal, textList } from './literals.ts'
import type { Place } from './storage.ts'

/**
 * SQL, to follow SELECT: 1 where the block is stored. Asked of few blocks, so it is made when it is asked. Absent for a block that has no rows, or
 * whose rows may be stored twice.
 */
export type IsStored = (() => string) | undefined

export const spanStored = (first: (Place & { readonly hint: string }) | undefined, receivedAt: number): IsStored =>
  first &&
  (() => {
    const { batch, i, hint } = first
    const place = { tenant: '', trace_id: placeOf(traceId(batch, i), hint), span_id: spanId(batch, i) }
    return anyOf('spans', place, `received_at = ${momentOf(receivedAt)}`)
  })

type Revision = Pick<Rollout, 'tenant' | 'rollout_id' | 'attempt_id' | 'revision'>

/** @param at the block's stamp, where it has the same whenever it is sent */
export const revisionStored = (table: string, of: Revision, reject: Partial<Reject> = {}, at?: number): IsStored => {
  const { tenant, rollout_id, attempt_id, revision } = of
  const stamp = at === undefined ? '' : ` AND inserted_at = ${momentOf(at)}`
  return () => anyOf(table, { tenant, rollout_id, attempt_id, ...reject }, `revision = ${revision}${stamp}`)
}

/** @param rewards as versionOf has them: an id, a space, and when it was given */
export function rewardsStored(rewards: readonly string[]): string {
  const versions = new Set(rewards)
  const ids = new Set(rewards.map((version) => version.slice(0, version.lastIndexOf(' '))))
  const version = "concat(reward_id, ' ', toString(toUnixTimestamp64Milli(given_at)))"
  const where = `tenant = '' AND reward_id IN ${textList(ids)} AND ${version} IN ${textList(versions)}`
  return `uniqExact(${version}) = ${versions.size} FROM rewards WHERE ${where}`
}

function anyOf(table: string, texts: Readonly<Record<string, string>>, condition: string): string {
  const equal = Object.entries(texts).map(([column, text]) => `${column} = ${literal(text)}`)
  return `count() > 0 FROM ${table} WHERE ${[...equal, condition].join(' AND ')}`
}

/** Milliseconds since the epoch, as stamps are kept. */
const momentOf = (at: number) => `fromUnixTimestamp64Milli(toInt64(${at}), 'UTC')`
