// Which rollout a reward means: looked up by what it names.

import type { ClickHouseClient } from '@clickhouse/client'

import { targetKey } from '../data/stray_rewards.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'

export interface RolloutKey {
  readonly rollout_id: string
  readonly attempt_id: string
}

/** @param keys as targetKey makes them @returns the newest rollout of each that is known */
export async function findTargets(client: ClickHouseClient, keys: readonly string[]): Promise<Map<string, RolloutKey>> {
  const values = new Map<string, string[]>()
  for (const key of keys) {
    const [name, value] = key.split('\u0000') as [string, string]
    const own = values.get(name)
    if (own) own.push(value)
    else values.set(name, [value])
  }
  if (values.size === 0) return new Map()
  const query = [...values].map(([name, own]) => (QUESTIONS[name] ?? byKey(name))(own)).join('\nUNION ALL\n')
  const answer = await client.query({ query, format: 'JSONEachRow', clickhouse_settings: { ...LONG_STATEMENT, ...SMALL_STATEMENT } })
  const found = await answer.json<RolloutKey & { name: string; value: string }>()
  return new Map(found.map(({ name, value, rollout_id, attempt_id }) => [targetKey(name, value), { rollout_id, attempt_id }]))
}

type Question = (values: readonly string[]) => string

const QUESTIONS: Readonly<Record<string, Question>> = {
  trace: (ids) => `
SELECT 'trace' AS name, trace_id AS value, rollout_id, attempt_id FROM rollout_members FINAL
WHERE tenant = '' AND trace_id IN ${textList(ids)}`,

  span: (ids) => `
SELECT 'span' AS name, span_id AS value, rollout_id, attempt_id
FROM (SELECT DISTINCT trace_id, span_id FROM spans WHERE span_id IN ${textList(ids)} AND signal = 'span') AS named
INNER JOIN (SELECT trace_id, rollout_id, attempt_id FROM rollout_members FINAL) AS members USING trace_id`,

  rollout: (ids) => `
SELECT 'rollout' AS name, rollout_id AS value, rollout_id, argMax(attempt_id, started_at) AS attempt_id FROM rollouts
WHERE tenant = '' AND rollout_id IN ${textList(ids)} GROUP BY rollout_id`,

  attempt: (ids) => `
SELECT DISTINCT 'attempt' AS name, concat(rollout_id, '/', attempt_id) AS value, rollout_id, attempt_id FROM rollouts
WHERE tenant = '' AND rollout_id IN ${textList(ids.map((id) => id.split('/')[0]!))} AND value IN ${textList(ids)}`,
}

const byKey =
  (name: string): Question =>
  (values) => `
SELECT name, value, rollout_id, attempt_id FROM rollout_keys FINAL
WHERE tenant = '' AND name IN ${textList([name])} AND value IN ${textList(values)}`
