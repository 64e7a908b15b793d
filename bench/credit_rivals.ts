// What one would do without Leyden, with the same rows in the same ClickHouse. A ReplacingMergeTree takes a late score as a new version
// of each whole row, and is read with FINAL. The Collector's otel_traces takes it as one more span, and whoever reads joins it.

import type { OpenStorage } from '../storage/open.ts'
import { tracesTables } from '../storage/otel_tables.ts'
import { readMs } from './credit.ts'

interface Times {
  /** Until the new scores can be read; ms. */
  readonly write: number
  readonly read: number
}

type Store = Pick<OpenStorage, 'client'>

const LONG = { max_query_size: '10000000' } as const
const listOf = (groups: readonly string[]) => `(${groups.map((group) => `'${group}'`).join(',')})`

async function run({ client }: Store, query: string): Promise<number> {
  const start = performance.now()
  await client.command({ query, clickhouse_settings: LONG })
  return performance.now() - start
}

export async function replacing(store: Store, late: readonly string[], batch: readonly string[]): Promise<Times> {
  await run(
    store,
    `CREATE TABLE naive ENGINE = ReplacingMergeTree(version) ORDER BY (tenant, rollout_id, attempt_id, step)
     AS SELECT *, toUInt32(1) AS version FROM transition_rows`,
  )
  const write = await run(
    store,
    `INSERT INTO naive
     SELECT * EXCEPT (score) REPLACE (score AS reward_outcome, score AS return, score - avg(score) OVER (PARTITION BY group_id) AS advantage, version + 1 AS version)
     FROM (SELECT *, toFloat64(cityHash64(rollout_id) % 2) AS score FROM naive FINAL WHERE group_id IN ${listOf(late)})`,
  )
  const read = await readMs(
    store,
    `SELECT rollout_id, step, advantage, weight, response_token_ids, response_logprobs FROM naive FINAL WHERE group_id IN ${listOf(batch)}`,
  )
  await run(store, 'DROP TABLE naive')
  return { write, read }
}

/** Attributes are text there, token ids and log-probabilities too; a group's baseline is computed by whoever reads. */
export async function otelTraces(store: Store, late: readonly string[], batch: readonly string[]): Promise<Times> {
  for (const statement of tracesTables({ traces_table_name: 'otel_traces', logs_table_name: '', ttl: 0 })) await run(store, statement)
  const columns = 'Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes'
  await run(
    store,
    `INSERT INTO otel_traces (${columns})
     SELECT started_at, rollout_id, concat(span_id, toString(step)), 'chat policy', 'agent', map(
       'gen_ai.operation.name', 'chat', 'leyden.group.id', group_id,
       'gen_ai.input.messages', prompt_messages, 'gen_ai.output.messages', completion,
       'response_token_ids', toJSONString(response_token_ids), 'logprobs', toJSONString(response_logprobs))
     FROM transitions`,
  )
  const scores = (groups: string) =>
    `INSERT INTO otel_traces (${columns})
     SELECT any(started_at), rollout_id, substring(rollout_id, 1, 16), 'agentlightning.annotation', 'agent',
       map('agentlightning.reward.0.name', 'correct', 'agentlightning.reward.0.value', toString(cityHash64(rollout_id) % 2))
     FROM transitions ${groups} GROUP BY rollout_id`
  await run(store, scores(''))
  const write = await run(store, scores(`WHERE group_id IN ${listOf(late)}`))
  const read = await readMs(
    store,
    `SELECT TraceId, rank, reward - avg(reward) OVER (PARTITION BY group_id) AS advantage, ids, logprobs
     FROM (
       SELECT TraceId, row_number() OVER (PARTITION BY TraceId ORDER BY Timestamp) AS rank, SpanAttributes['leyden.group.id'] AS group_id,
         JSONExtract(SpanAttributes['response_token_ids'], 'Array(UInt32)') AS ids, JSONExtract(SpanAttributes['logprobs'], 'Array(Float32)') AS logprobs
       FROM otel_traces WHERE SpanName = 'chat policy' AND SpanAttributes['leyden.group.id'] IN ${listOf(batch)}
     ) AS calls
     INNER JOIN (
       SELECT TraceId, argMax(toFloat64(SpanAttributes['agentlightning.reward.0.value']), Timestamp) AS reward
       FROM otel_traces WHERE SpanName = 'agentlightning.annotation' GROUP BY TraceId
     ) AS scores USING TraceId`,
  )
  return { write, read }
}
