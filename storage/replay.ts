// Stored rollouts as they were read: their raw items, and what became of their calls.

import type { ClickHouseClient } from '@clickhouse/client'

import { hintOfItem, placeOf, routeKey } from '../data/routing.ts'
import type { Item } from '../data/span.ts'
import { bookkeeping } from './bookkeeping.ts'
import { readItems } from './read_items.ts'

export interface RolloutId {
  readonly rollout_id: string
  readonly attempt_id: string
}

/** A live transition, as far as a pipeline decides it. */
export interface StoredTransition extends RolloutId {
  readonly span_id: string
  readonly policy: string
  readonly policy_version: number | null
  readonly agent: string
  readonly reward_outcome: number | null
  readonly reward_intermediate: number | null
  readonly return: number | null
  readonly weight: number | null
  readonly credit_method: string
  readonly flags: readonly string[]
}

export interface StoredReject extends RolloutId {
  readonly span_id: string
  readonly reason: string
}

/** The rollouts committed last, newest first. */
export async function lastRollouts(client: ClickHouseClient, count: number): Promise<RolloutId[]> {
  return select<RolloutId>(
    client,
    `SELECT rollout_id, attempt_id FROM rollouts WHERE tenant = '' GROUP BY rollout_id, attempt_id
     ORDER BY max(committed_at) DESC, rollout_id LIMIT {count:UInt32}`,
    { count },
  )
}

/** Raw items by routeKey; a rollout whose spans are gone is missing. */
export async function itemsOf(client: ClickHouseClient, rollouts: readonly RolloutId[]): Promise<Map<string, Item[]>> {
  const members = await bookkeeping(client).tracesOf(rollouts)
  const owners = new Map(members.map(({ trace_id, rollout_id, attempt_id }) => [trace_id, routeKey(rollout_id, attempt_id)]))
  const items = new Map<string, Item[]>()
  const wanted = new Set(rollouts.map(({ rollout_id, attempt_id }) => routeKey(rollout_id, attempt_id)))
  // Log records outside of any trace, as the one that ends a rollout, are kept in the rollout's own place.
  const places = [...wanted].map((key) => placeOf('', key))
  for (const item of await readItems(client, [...new Set([...owners.keys(), ...places])])) {
    const key = hintOfItem(item, 'trace') || owners.get(item.trace_id) || ''
    if (!wanted.has(key)) continue
    const own = items.get(key)
    if (own) own.push(item)
    else items.set(key, [item])
  }
  return items
}

export async function outcomesOf(
  client: ClickHouseClient,
  rollouts: readonly RolloutId[],
): Promise<{ transitions: StoredTransition[]; rejects: StoredReject[] }> {
  const params = {
    ids: [...new Set(rollouts.map(({ rollout_id }) => rollout_id))],
  }
  const these = "tenant = '' AND rollout_id IN {ids:Array(String)}"
  const transitions = await select<StoredTransition>(
    client,
    `SELECT rollout_id, attempt_id, span_id, policy, toFloat64(policy_version) AS policy_version, agent, reward_outcome, reward_intermediate, return,
       weight, credit_method, flags FROM transitions WHERE ${these}`,
    params,
  )
  const rejects = await select<StoredReject>(
    client,
    `SELECT rollout_id, attempt_id, span_id, reason FROM rejects WHERE ${these} AND (rollout_id, attempt_id, revision) IN
       (SELECT rollout_id, attempt_id, max(revision) FROM rollouts WHERE ${these} GROUP BY rollout_id, attempt_id)`,
    params,
  )
  return { transitions, rejects }
}

async function select<T>(client: ClickHouseClient, query: string, query_params: Record<string, unknown>): Promise<T[]> {
  return (await client.query({ query, query_params, format: 'JSONEachRow' })).json<T>()
}
