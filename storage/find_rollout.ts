// The stored items of one rollout, found by what a person has at hand: its id, or the id of one of its traces.

import type { ClickHouseClient } from '@clickhouse/client'

import { hintOfItem, routeKey, splitKey } from '../data/routing.ts'
import type { Item } from '../data/span.ts'
import { bookkeeping } from './bookkeeping.ts'
import { readItems } from './read_items.ts'

export interface FoundRollout {
  /** Rollout id and attempt id, as routeKey makes it. */
  readonly key: string
  readonly items: readonly Item[]
}

/** @param id a trace id, or `rollout_id`, or `rollout_id/attempt_id` @returns every rollout that it may mean */
export async function findRollouts(client: ClickHouseClient, id: string): Promise<FoundRollout[]> {
  const owners = await ownersOf(client, id)
  const found: FoundRollout[] = []
  for (const key of new Set(owners.map(([, owner]) => owner))) {
    const stored = await bookkeeping(client).tracesOf([splitKey(key)])
    const traces = new Set(stored.map(({ trace_id }) => trace_id))
    for (const [trace, owner] of owners) if (owner === key) traces.add(trace)
    const items = (await readItems(client, [...traces])).filter((item) => [key, ''].includes(hintOfItem(item, 'trace')))
    if (items.length > 0) found.push({ key, items })
  }
  return found
}

/** Traces and the rollout each belongs to: as assembled, else as the spans themselves say, else one of its own. */
async function ownersOf(client: ClickHouseClient, id: string): Promise<[trace: string, key: string][]> {
  const [rollout = '', attempt] = id.split('/', 2)
  const rows = await client.query({
    query: `
      SELECT trace_id, rollout_id, attempt_id FROM (
        SELECT trace_id, rollout_id, attempt_id FROM rollout_members FINAL
        WHERE tenant = '' AND (trace_id = {rollout:String} OR rollout_id = {rollout:String})
        UNION DISTINCT
        SELECT trace_id, splitByChar('\\0', hint)[1] AS rollout_id, splitByChar('\\0', hint)[2] AS attempt_id
        FROM (SELECT trace_id, max(rollout_hint) AS hint FROM spans WHERE tenant = '' GROUP BY trace_id HAVING hint != '')
        WHERE trace_id = {rollout:String} OR rollout_id = {rollout:String}
      )
      ${attempt === undefined ? '' : 'WHERE attempt_id = {attempt:String}'}`,
    query_params: { rollout, attempt: attempt ?? '' },
    format: 'JSONEachRow',
  })
  const known = await rows.json<{ trace_id: string; rollout_id: string; attempt_id: string }>()
  if (known.length === 0) return [[rollout, routeKey(rollout, attempt ?? '')]]
  return known.map(({ trace_id, rollout_id, attempt_id }) => [trace_id, routeKey(rollout_id, attempt_id)])
}
