// The rollouts that ended within a time, in a row each: how many calls, and what became of them.

import type { ClickHouseClient } from '@clickhouse/client'

export interface RolloutRow {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly task_id: string
  readonly mode: string
  readonly status: string
  readonly closed_by: string
  readonly complete: boolean
  readonly ended_at: string
  readonly spans: number
  readonly calls: number
  readonly transitions: number
  /** Rejected calls by reason. */
  readonly rejects: Readonly<Record<string, number>>
  readonly outcome: number | null
}

/** @param since,until milliseconds since the epoch; what ended at `until` is left out @returns the last that ended, in the order in which they did */
export async function rolloutsBetween(client: ClickHouseClient, since: number, until: number, most: number): Promise<RolloutRow[]> {
  const answer = await client.query({ query: QUERY, query_params: { since, until, most }, format: 'JSONEachRow' })
  return (await answer.json<RolloutRow>()).reverse()
}

const QUERY = `
WITH ended AS (
  SELECT * EXCEPT (rewards, credit) FROM rollouts FINAL
  WHERE tenant = '' AND ended_at >= fromUnixTimestamp64Milli({since:Int64}) AND ended_at < fromUnixTimestamp64Milli({until:Int64})
  ORDER BY ended_at DESC, rollout_id DESC, attempt_id DESC LIMIT {most:UInt32}
)
SELECT rollout_id, attempt_id, task_id, mode, status, closed_by, complete, toString(ended_at) AS ended_at, toUInt32(spans) AS spans, calls, transitions,
  reasons.counts AS rejects, outcome
FROM ended LEFT JOIN (
  SELECT rollout_id, attempt_id, revision, sumMap(map(toString(reason), toUInt32(1))) AS counts FROM rejects
  WHERE tenant = '' AND (rollout_id, attempt_id, revision) IN (SELECT rollout_id, attempt_id, revision FROM ended)
  GROUP BY rollout_id, attempt_id, revision
) AS reasons USING (rollout_id, attempt_id, revision)
ORDER BY ended.ended_at DESC, rollout_id DESC, attempt_id DESC`
