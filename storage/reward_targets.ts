// Which rollout a reward means: looked up by what it names.

import type { ClickHouseClient } from '@clickhouse/client'

import { targetKey } from '../data/stray_rewards.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import { isAtEnd, noneYet, openReader, readAgain, readNullable, readString } from './row_reader.ts'
import { traceOwners } from './schema/spans.ts'
import type { KnownRollout } from './storage.ts'

/** @param keys as targetKey makes them @returns the newest rollout of each that is known */
export async function findTargets(client: ClickHouseClient, keys: readonly string[]): Promise<Map<string, KnownRollout>> {
  const values = new Map<string, string[]>()
  for (const key of keys) {
    const [name, value] = key.split('\u0000') as [string, string]
    const own = values.get(name)
    if (own) own.push(value)
    else values.set(name, [value])
  }
  const found = new Map<string, KnownRollout>()
  if (values.size === 0) return found
  const query = `${[...values].map(([name, own]) => (QUESTIONS[name] ?? byKey(name))(own)).join('\nUNION ALL\n')}\nFORMAT RowBinary`
  const { stream } = await client.exec({ query, clickhouse_settings: { ...LONG_STATEMENT, ...SMALL_STATEMENT } })
  const reader = await openReader(stream)
  const [name, attempt] = [noneYet<string>(), noneYet<string>()]
  while (!isAtEnd(reader)) {
    const key = targetKey(readAgain(reader, name, readString), readString(reader))
    const rollout = {
      rollout_id: readString(reader),
      attempt_id: readAgain(reader, attempt, readString),
      group_id: readNullable(reader, readString) ?? undefined,
    }
    found.set(key, rollout)
  }
  return found
}

type Question = (values: readonly string[]) => string

/** All but the first two do not know the group. */
const NO_GROUP = 'CAST(NULL AS Nullable(String)) AS group_id'
const named = (text: string) => `'${text}' AS name`

const QUESTIONS: Readonly<Record<string, Question>> = {
  rollout: (ids) => `
SELECT ${named('rollout')}, rollout_id AS value, rollout_id, argMax(attempt_id, at) AS attempt_id, toNullable(argMax(group_id, at)) AS group_id
FROM (SELECT rollout_id, attempt_id, group_id, (started_at, revision) AS at FROM rollouts WHERE tenant = '' AND rollout_id IN ${textList(ids)})
GROUP BY rollout_id`,

  attempt: (ids) => `
SELECT ${named('attempt')}, concat(rollout_id, '/', attempt_id) AS value, rollout_id, attempt_id, toNullable(argMax(group_id, revision)) AS group_id
FROM rollouts
WHERE tenant = '' AND rollout_id IN ${textList(ids.map((id) => id.split('/')[0]!))} AND value IN ${textList(ids)}
GROUP BY rollout_id, attempt_id`,

  trace: (ids) => `
SELECT ${named('trace')}, trace_id AS value, rollout_id, attempt_id, ${NO_GROUP}
FROM (${traceOwners(`WHERE tenant = '' AND trace_id IN ${textList(ids)}`)})`,

  span: (ids) => `
SELECT ${named('span')}, span_id AS value, rollout_id, attempt_id, ${NO_GROUP}
FROM (SELECT DISTINCT trace_id, span_id FROM spans WHERE span_id IN ${textList(ids)} AND signal = 'span') AS named
INNER JOIN (${traceOwners()}) AS members USING trace_id`,
}

const byKey =
  (key: string): Question =>
  (values) => `
SELECT name, value, rollout_id, attempt_id, ${NO_GROUP} FROM rollout_keys FINAL
WHERE tenant = '' AND name IN ${textList([key])} AND value IN ${textList(values)}`
