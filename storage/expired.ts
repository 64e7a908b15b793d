// Which rollouts may have lost spans to the TTL: they are credited by their outlines, and keep their transitions.

import type { ClickHouseClient } from '@clickhouse/client'

import { routeKey } from '../data/routing.ts'
import { SMALL_STATEMENT } from './literals.ts'
import type { RolloutKey } from './storage.ts'

/**
 * How many items the live revision of each rollout covers, for those so old that some of them may be gone. A rollout that straddles
 * midnight loses half of its spans a day before the rest.
 */
export async function coveredByOld(client: ClickHouseClient, rollouts: readonly RolloutKey[], ttl: number): Promise<Map<string, number>> {
  if (ttl === 0 || rollouts.length === 0) return new Map()
  const answer = await client.query({
    query: `
      SELECT rollout_id, attempt_id, spans FROM rollouts FINAL
      WHERE tenant = '' AND rollout_id IN {ids:Array(String)} AND covered_until < fromUnixTimestamp64Milli({before:Int64})
      SETTINGS output_format_json_quote_64bit_integers = 0`,
    query_params: { ids: rollouts.map(({ rollout_id }) => rollout_id), before: Date.now() - Math.round(ttl / 2) },
    format: 'JSONEachRow',
    clickhouse_settings: SMALL_STATEMENT,
  })
  const rows = await answer.json<RolloutKey & { spans: number }>()
  return new Map(rows.map(({ rollout_id, attempt_id, spans }) => [routeKey(rollout_id, attempt_id), spans]))
}
