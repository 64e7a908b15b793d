// What storage knows of traces and rollouts: which belongs to which, and what no revision covers yet.

import { TupleParam, type ClickHouseClient } from '@clickhouse/client'

import { routeKey } from '../data/routing.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import { traceOwners } from './schema/spans.ts'
import type { Member, Storage, Uncovered } from './storage.ts'

/** Ids asked for in one query: they travel in the URL. */
const TOGETHER = 1_000

interface Bookkeeping extends Pick<Storage, 'members' | 'tracesOf' | 'lastRevisions' | 'closedBySize' | 'uncovered'> {
  /** What the ledger holds of these rewards, as versionOf has it. */
  storedRewards(rewardIds: readonly string[], abort?: AbortSignal): Promise<string[]>
  /** When the latest span arrived; 0 where there is none. Partitions know it, so that nothing is read. */
  lastArrival(): Promise<number>
}
type RolloutId = { readonly rollout_id: string; readonly attempt_id: string }

/** A reward may be said again under its id: then it is another version. */
export const versionOf = ({ reward_id, given_at }: { reward_id: string; given_at: number }): string => `${reward_id} ${given_at}`

export function bookkeeping(client: ClickHouseClient): Bookkeeping {
  async function select<T>(query: string, query_params: Record<string, unknown> = {}, abort?: AbortSignal): Promise<T[]> {
    const answer = await client.query({
      query,
      query_params,
      format: 'JSONEachRow',
      clickhouse_settings: SMALL_STATEMENT,
      ...abortable(abort),
    })
    return answer.json<T>()
  }

  async function inChunks<A, T>(all: readonly A[], ask: (some: readonly A[]) => Promise<T[]>): Promise<T[]> {
    const found: T[] = []
    for (let i = 0; i < all.length; i += TOGETHER) found.push(...(await ask(all.slice(i, i + TOGETHER))))
    return found
  }

  const tracesOf: Storage['tracesOf'] = (rollouts) =>
    inChunks(rollouts, (some) =>
      select<Member>(
        `SELECT trace_id, rollout_id, attempt_id FROM rollout_members FINAL
         WHERE tenant = '' AND trace_id IN (
           SELECT trace_id FROM rollout_members
           WHERE rollout_id IN {ids:Array(String)} AND (rollout_id, attempt_id) IN {keys:Array(Tuple(String, String))}
         )
         ORDER BY joined_at`,
        keyParams(some),
      ),
    )

  const members: Storage['members'] = async (traceIds) => {
    const direct = await inChunks(traceIds, (some) =>
      select<Member>(
        "SELECT trace_id, rollout_id, attempt_id FROM rollout_members FINAL WHERE tenant = '' AND trace_id IN {traces:Array(String)}",
        { traces: some },
      ),
    )
    const rollouts = new Map(direct.map((member) => [JSON.stringify([member.rollout_id, member.attempt_id]), member]))
    return tracesOf([...rollouts.values()])
  }

  const lastRevisions: Storage['lastRevisions'] = async (rollouts) => {
    const rows = await inChunks(rollouts, (some) =>
      select<RolloutId & { revision: number }>(
        ['rollouts', 'transition_rows', 'rejects']
          .map(
            (table) => `SELECT rollout_id, attempt_id, max(revision) AS revision FROM ${table}
             WHERE tenant = '' AND rollout_id IN {ids:Array(String)} AND (rollout_id, attempt_id) IN {keys:Array(Tuple(String, String))}
             GROUP BY rollout_id, attempt_id`,
          )
          .join('\nUNION ALL\n'),
        keyParams(some),
      ),
    )
    const last = new Map<string, number>()
    for (const { rollout_id, attempt_id, revision } of rows) {
      const key = routeKey(rollout_id, attempt_id)
      last.set(key, Math.max(revision, last.get(key) ?? 0))
    }
    return last
  }

  const closedBySize: Storage['closedBySize'] = async (rollouts) => {
    const rows = await inChunks(rollouts, (some) =>
      select<RolloutId>(
        `SELECT rollout_id, attempt_id FROM rollouts FINAL
         WHERE tenant = '' AND rollout_id IN {ids:Array(String)} AND (rollout_id, attempt_id) IN {keys:Array(Tuple(String, String))}
           AND closed_by IN ('max_spans', 'max_bytes')`,
        keyParams(some),
      ),
    )
    return new Set(rows.map(({ rollout_id, attempt_id }) => routeKey(rollout_id, attempt_id)))
  }

  const storedRewards: Bookkeeping['storedRewards'] = async (rewardIds, abort) => {
    if (rewardIds.length === 0) return []
    const query = `
      SELECT DISTINCT reward_id, toUnixTimestamp64Milli(given_at) AS given_at FROM rewards
      WHERE tenant = '' AND reward_id IN ${textList(rewardIds)}`
    const clickhouse_settings = { ...LONG_STATEMENT, ...SMALL_STATEMENT, output_format_json_quote_64bit_integers: 0 } as const
    const answer = await client.query({ query, format: 'JSONEachRow', clickhouse_settings, ...abortable(abort) })
    return (await answer.json<{ reward_id: string; given_at: number }>()).map(versionOf)
  }

  // A span belongs where its hint says, else where its trace's member row says, else to a rollout of
  // its own trace that was never closed. Compared are arrivals and, since two flushes may end in
  // either order, numbers of spans. Payloads, most of what is stored, are looked at where they tell log records apart.
  const uncovered: Storage['uncovered'] = () =>
    select<Uncovered>(`
      WITH
        sent AS (
          SELECT trace_id, rollout_hint, received_at, span_id, 0 AS record FROM spans WHERE trace_id != '' AND signal = 'span'
          UNION ALL
          SELECT trace_id, rollout_hint, received_at, span_id, cityHash64(payload, resource) AS record FROM spans WHERE trace_id != '' AND signal = 'log'
        ),
        stored AS (
          SELECT
            trace_id,
            multiIf(rollout_hint != '', rollout_hint, m.rollout_id != '', concat(m.rollout_id, '\\0', m.attempt_id), concat(trace_id, '\\0')) AS key,
            uniqExact(span_id, record) AS items,
            groupUniqArrayIf(rollout_hint, rollout_hint != '') AS own_hints,
            min(received_at) AS first, max(received_at) AS last
          FROM sent LEFT JOIN (${traceOwners()}) AS m USING trace_id
          GROUP BY trace_id, key
        ),
        behind AS (
          SELECT key, sum(items) AS items, max(last) AS last FROM stored GROUP BY key
        ),
        covered AS (
          SELECT concat(rollout_id, '\\0', attempt_id) AS key, argMax(spans, revision) AS items, argMax(covered_until, revision) AS until
          FROM rollouts GROUP BY key
        )
      SELECT
        trace_id, arrayDistinct(arrayFlatten(groupArray(own_hints))) AS hints,
        toUnixTimestamp64Milli(min(first)) AS first_received_at, toUnixTimestamp64Milli(max(last)) AS last_received_at
      FROM stored
      WHERE key IN (
        SELECT key FROM behind LEFT JOIN covered USING key
        WHERE behind.last > covered.until OR behind.items > covered.items
      )
      GROUP BY trace_id
      ORDER BY first_received_at
      SETTINGS output_format_json_quote_64bit_integers = 0, max_threads = 0`)

  const lastArrival: Bookkeeping['lastArrival'] = async () => {
    const query = 'SELECT toUnixTimestamp64Milli(max(received_at)) AS at FROM spans SETTINGS output_format_json_quote_64bit_integers = 0'
    return (await select<{ at: number }>(query))[0]!.at
  }

  return { members, tracesOf, lastRevisions, closedBySize, uncovered, storedRewards, lastArrival }
}

const abortable = (abort?: AbortSignal) => (abort ? { abort_signal: abort } : {})

const keyParams = (rollouts: readonly RolloutId[]) => ({
  ids: rollouts.map(({ rollout_id }) => rollout_id),
  keys: rollouts.map(({ rollout_id, attempt_id }) => new TupleParam([rollout_id, attempt_id])),
})
