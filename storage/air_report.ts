// How AIR's rules go with how rollouts end: a rule is worth listening to if rollouts in which it fired end as its class promises.

import type { ClickHouseClient } from '@clickhouse/client'

export interface RuleReport {
  readonly rule: string
  readonly tool: string
  readonly class: string
  readonly fired: number
  /** Scored rollouts in which it fired, and those in which the same tool was called and it did not. */
  readonly rollouts: number
  readonly others: number
  /** Mean outcome of each; null where there are none. */
  readonly outcome: number | null
  readonly outcome_of_others: number | null
  /** Where listening to it would mislead, why. */
  readonly warning: string
}

/** Fewer rollouts than this on either side say nothing. */
const ENOUGH = 20
/** So many standard errors the wrong way are no chance. */
const SURE = 2

interface Row extends Omit<RuleReport, 'warning'> {
  readonly spread: number | null
  readonly spread_of_others: number | null
}

export async function airReport(client: ClickHouseClient, since: number): Promise<RuleReport[]> {
  const answer = await client.query({ query: QUERY, query_params: { since }, format: 'JSONEachRow' })
  return (await answer.json<Row>()).map(({ spread, spread_of_others, ...row }) => ({
    ...row,
    warning: warningOf({ ...row, spread, spread_of_others }),
  }))
}

function warningOf(row: Row): string {
  const { rollouts, others, outcome, outcome_of_others, spread, spread_of_others } = row
  if (rollouts < ENOUGH || others < ENOUGH) return ''
  const error = Math.sqrt(spread! ** 2 / rollouts + spread_of_others! ** 2 / others)
  const difference = outcome! - outcome_of_others!
  if (row.class === 'ok' && difference < -SURE * error)
    return 'rollouts in which this went well end worse: paying for it would teach the wrong thing'
  if (row.class === 'policy_error' && difference > SURE * error)
    return 'rollouts with this error end better: it may be no error, or a lucky habit'
  return ''
}

const QUERY = `
WITH
  scored AS (
    SELECT rollout_id, attempt_id, outcome, outline
    FROM (SELECT rollout_id, attempt_id, revision, outcome FROM rollouts FINAL WHERE outcome IS NOT NULL AND ended_at >= fromUnixTimestamp64Milli({since:Int64})) AS live
    INNER JOIN outlines USING (rollout_id, attempt_id, revision)
  ),
  ran AS (
    SELECT rollout_id, attempt_id, outcome, JSONExtractString(tool, 'name') AS name, JSONExtractString(tool, 'air_class') AS class, JSONExtractString(tool, 'air_rule') AS rule
    FROM scored ARRAY JOIN JSONExtractArrayRaw(outline, 'tools') AS tool
    WHERE class != ''
  ),
  fired AS (SELECT name, class, rule, rollout_id, attempt_id, outcome, count() AS times FROM ran GROUP BY name, class, rule, rollout_id, attempt_id, outcome),
  sides AS (
    SELECT name, class, rule, sum(times) AS fired, count() AS rollouts, avg(outcome) AS mean, stddevPop(outcome) AS spread, sum(outcome) AS total, sum(outcome * outcome) AS squares
    FROM fired GROUP BY name, class, rule
  ),
  callers AS (
    SELECT name, count() AS rollouts, sum(outcome) AS total, sum(outcome * outcome) AS squares
    FROM (SELECT DISTINCT name, rollout_id, attempt_id, outcome FROM ran) GROUP BY name
  )
SELECT
  rule, name AS tool, class, toUInt32(s.fired) AS fired, toUInt32(s.rollouts) AS rollouts, toUInt32(c.rollouts - s.rollouts) AS others,
  s.mean AS outcome, if(others = 0, NULL, (c.total - s.total) / others) AS outcome_of_others,
  s.spread AS spread, if(others = 0, NULL, sqrt(greatest(0, (c.squares - s.squares) / others - outcome_of_others * outcome_of_others))) AS spread_of_others
FROM sides AS s INNER JOIN callers AS c USING name
ORDER BY fired DESC, tool, rule`
