// What `leyden rollouts run` asks of ClickHouse: which rollouts of its run have ended, and which groups no update will use (again).

import type { ClickHouseClient } from '@clickhouse/client'

import { trainerLease } from './lease.ts'
import { SMALL_STATEMENT } from './literals.ts'
import { policiesOf } from './policies.ts'

type Trainer = 'not seen' | 'at work' | 'ended'

export interface RolloutRun {
  ended(): Promise<ReadonlySet<string>>
  spent(groups: readonly string[]): Promise<ReadonlySet<string>>
  live(): Promise<number | null>
  /** Ended: one was at work after a rollout of this run was stored, so that it may have used it, and is no more. */
  trainer(): Promise<Trainer>
}

/** @param patience a group that so many updates, and one more, did not use is not waited for */
export function rolloutRun(
  client: ClickHouseClient,
  { name, policy, patience }: { name: string; policy: string; patience: number },
): RolloutRun {
  const policies = policiesOf(client)

  async function ended(): Promise<ReadonlySet<string>> {
    return column(`SELECT DISTINCT rollout_id AS id FROM rollouts WHERE startsWith(group_id, {prefix:String}) AND closed_by = 'end'`, {
      prefix: `${name}/`,
    })
  }

  const spent = (groups: readonly string[]) => column(SPENT, { policy, patience, groups })

  async function live(): Promise<number | null> {
    return (await policies.live(policy))?.version ?? null
  }

  async function trainer(): Promise<Trainer> {
    const [state] = await column(TRAINER, { name: trainerLease(policy), prefix: `${name}/` })
    return state as Trainer
  }

  async function column(query: string, query_params: Record<string, unknown>): Promise<Set<string>> {
    const answer = await client.query({ query, query_params, format: 'JSONEachRow', clickhouse_settings: SMALL_STATEMENT })
    return new Set((await answer.json<{ id: string }>()).map(({ id }) => id))
  }

  return { ended, spent, live, trainer }
}

// A run without rollouts has no first one: then nothing is later than that.
const TRAINER = `
WITH (SELECT minOrNull(committed_at) FROM rollouts WHERE startsWith(group_id, {prefix:String})) AS first
SELECT multiIf(max(ends) > now64(3), 'at work', max(renewed) > first, 'ended', 'not seen') AS id
FROM (SELECT argMax(until, renewed_at) AS ends, max(renewed_at) AS renewed FROM leases WHERE name = {name:String} GROUP BY holder)`

// Used by an update that is recorded; or credited, and every advantage 0 or none; or older than the last so many updates.
const SPENT = `
WITH (SELECT finished_at FROM training_steps FINAL WHERE policy = {policy:String} ORDER BY finished_at DESC LIMIT 1 OFFSET {patience:UInt32}) AS passed
SELECT DISTINCT group_id AS id FROM training_rows
WHERE policy = {policy:String} AND group_id IN {groups:Array(String)}
  AND update IN (SELECT step FROM training_steps WHERE policy = {policy:String})
UNION DISTINCT
SELECT group_id FROM transition_rows
WHERE group_id IN {groups:Array(String)} AND group_id IN (SELECT group_id FROM credits WHERE group_id IN {groups:Array(String)})
GROUP BY group_id HAVING max(abs(ifNull(advantage, 0))) < 1e-9
UNION DISTINCT
SELECT group_id FROM rollouts WHERE group_id IN {groups:Array(String)}
GROUP BY group_id HAVING max(committed_at) < passed`
