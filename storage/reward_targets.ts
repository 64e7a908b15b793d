// Which rollout a reward means: looked up by what it names.

import type { ClickHouseClient } from '@clickhouse/client'

import { targetKey } from '../data/stray_rewards.ts'

export interface RolloutKey {
  readonly rollout_id: string
  readonly attempt_id: string
}

/** Keys asked for in one query: they travel in the URL. */
const TOGETHER = 300

/** @param keys as targetKey makes them @returns the newest rollout of each that is known */
export async function findTargets(client: ClickHouseClient, keys: readonly string[]): Promise<Map<string, RolloutKey>> {
  const found = new Map<string, RolloutKey>()
  for (let i = 0; i < keys.length; i += TOGETHER) {
    const some = keys.slice(i, i + TOGETHER).map((key) => key.split('\u0000') as [string, string])
    const valuesOf = (name: string) => some.filter(([own]) => own === name).map(([, value]) => value)
    const named = some.filter(([name]) => !['trace', 'span', 'rollout', 'attempt'].includes(name))
    const parts = [
      valuesOf('trace').length > 0 && TRACES,
      valuesOf('span').length > 0 && SPANS,
      valuesOf('rollout').length > 0 && ROLLOUTS,
      valuesOf('attempt').length > 0 && ATTEMPTS,
      named.length > 0 && KEYS,
    ].filter((part) => part !== false)
    const answer = await client.query({
      query: parts.join('\nUNION ALL\n'),
      query_params: {
        traces: valuesOf('trace'),
        spans: valuesOf('span'),
        rollouts: valuesOf('rollout'),
        attempts: valuesOf('attempt'),
        names: [...new Set(named.map(([name]) => name))],
        values: named.map(([, value]) => value),
      },
      format: 'JSONEachRow',
    })
    for (const { name, value, ...rollout } of await answer.json<RolloutKey & { name: string; value: string }>()) {
      found.set(targetKey(name, value), rollout)
    }
  }
  return found
}

const TRACES = `
SELECT 'trace' AS name, trace_id AS value, rollout_id, attempt_id FROM rollout_members FINAL
WHERE tenant = '' AND trace_id IN {traces:Array(String)}`

const SPANS = `
SELECT 'span' AS name, span_id AS value, rollout_id, attempt_id
FROM (SELECT DISTINCT trace_id, span_id FROM spans WHERE span_id IN {spans:Array(String)} AND signal = 'span') AS named
INNER JOIN (SELECT trace_id, rollout_id, attempt_id FROM rollout_members FINAL) AS members USING trace_id`

const ROLLOUTS = `
SELECT 'rollout' AS name, rollout_id AS value, rollout_id, argMax(attempt_id, started_at) AS attempt_id FROM rollouts
WHERE tenant = '' AND rollout_id IN {rollouts:Array(String)} GROUP BY rollout_id`

const ATTEMPTS = `
SELECT DISTINCT 'attempt' AS name, concat(rollout_id, '/', attempt_id) AS value, rollout_id, attempt_id FROM rollouts
WHERE tenant = '' AND rollout_id IN (SELECT arrayJoin(arrayMap(one -> splitByChar('/', one)[1], {attempts:Array(String)}))) AND value IN {attempts:Array(String)}`

const KEYS = `
SELECT name, value, rollout_id, attempt_id FROM rollout_keys FINAL
WHERE tenant = '' AND name IN {names:Array(String)} AND value IN {values:Array(String)}`
