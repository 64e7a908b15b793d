// Rewards for rollouts whose spans have expired: their outline takes them, and their transitions stay as they are but for credit.

import type { ClickHouseClient } from '@clickhouse/client'

import type { Reward } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { outlinedReward, type Outline, type OutlinedReward } from './outline.ts'
import type { RolloutKey } from './reward_targets.ts'

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
  })
  const rows = await answer.json<RolloutKey & { spans: number }>()
  return new Map(rows.map(({ rollout_id, attempt_id, spans }) => [routeKey(rollout_id, attempt_id), spans]))
}

/** Span of the call that answered with each response id. */
export async function responsesOf(client: ClickHouseClient, { rollout_id, attempt_id }: RolloutKey): Promise<Map<string, string>> {
  const answer = await client.query({
    query: `
      SELECT DISTINCT response_id, span_id FROM transition_rows
      WHERE tenant = '' AND rollout_id = {rollout_id:String} AND attempt_id = {attempt_id:String} AND response_id != ''`,
    query_params: { rollout_id, attempt_id },
    format: 'JSONEachRow',
  })
  const rows = await answer.json<{ response_id: string; span_id: string }>()
  return new Map(rows.map(({ response_id, span_id }) => [response_id, span_id]))
}

/** Those of the rewards that the outline lacks, about its calls or the whole. One about anything else there is counted as of the whole. */
export function newRewards(rewards: readonly Reward[], outline: Outline, responses: ReadonlyMap<string, string>): OutlinedReward[] {
  const known = new Set(outline.rewards.map(({ reward_id, times }) => `${reward_id} ${times[1]}`))
  const nodeOf = new Map(outline.calls.map(({ span_id, node }) => [span_id, node]))
  return rewards
    .map((reward) => {
      const { response_id, span_id } = reward.target ?? {}
      const call = nodeOf.get(responses.get(response_id ?? '') ?? span_id ?? '')
      return { ...outlinedReward(reward, () => -1), target: call ?? -1 }
    })
    .filter(({ reward_id, times }) => !known.has(`${reward_id} ${times[1]}`))
}
