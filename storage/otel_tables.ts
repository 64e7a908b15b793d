// The tables of the OpenTelemetry Collector's ClickHouse exporter, column for column (its version 0.161, with Map columns and bloom
// filters), so that it may write to them as well, and dashboards made for it work. `TimestampTime` is for those of older versions.

import { DEDUPLICATION_WINDOW } from './schema/settings.ts'

export interface OtelTables {
  readonly traces_table_name: string
  readonly logs_table_name: string
  /** How long rows are kept, counted from their own timestamp, in milliseconds; 0: for ever. */
  readonly ttl: number
}

const ATTRIBUTES = 'Map(LowCardinality(String), String) CODEC(ZSTD(1))'

export function tracesTables({ traces_table_name: name, ttl }: OtelTables): string[] {
  const [table, lookup, view] = [name, `${name}_trace_id_ts`, `${name}_trace_id_ts_mv`].map(quoted)
  return [
    `CREATE TABLE IF NOT EXISTS ${table} (
      Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
      TraceId String CODEC(ZSTD(1)),
      SpanId String CODEC(ZSTD(1)),
      ParentSpanId String CODEC(ZSTD(1)),
      TraceState String CODEC(ZSTD(1)),
      SpanName LowCardinality(String) CODEC(ZSTD(1)),
      SpanKind LowCardinality(String) CODEC(ZSTD(1)),
      ServiceName LowCardinality(String) CODEC(ZSTD(1)),
      ResourceAttributes ${ATTRIBUTES},
      ScopeName String CODEC(ZSTD(1)),
      ScopeVersion String CODEC(ZSTD(1)),
      SpanAttributes ${ATTRIBUTES},
      Duration UInt64 CODEC(T64, ZSTD(1)),
      StatusCode LowCardinality(String) CODEC(ZSTD(1)),
      StatusMessage String CODEC(ZSTD(1)),
      Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
      Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
      ${items('ResourceAttributes')},
      ${items('SpanAttributes')},
      ${indexes('res_attr', 'ResourceAttributes')},
      ${indexes('span_attr', 'SpanAttributes')},
      INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
      INDEX idx_duration Duration TYPE minmax GRANULARITY 1,
      INDEX idx_lower_span_name lower(SpanName) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8
    ) ENGINE = MergeTree
    PARTITION BY toDate(Timestamp)
    PRIMARY KEY (ServiceName, SpanName, toDateTime(Timestamp))
    ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), Timestamp)
    ${expiry('toDate(Timestamp)', ttl)}
    SETTINGS ${SETTINGS}`,
    `CREATE TABLE IF NOT EXISTS ${lookup} (
      TraceId String CODEC(ZSTD(1)),
      Start SimpleAggregateFunction(min, DateTime) CODEC(ZSTD(1)),
      End SimpleAggregateFunction(max, DateTime) CODEC(ZSTD(1))
    ) ENGINE = AggregatingMergeTree
    PARTITION BY toStartOfWeek(Start)
    ORDER BY TraceId
    ${expiry('toDate(Start)', ttl)}
    SETTINGS ${SETTINGS}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${view} TO ${lookup} AS
    SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End FROM ${table} WHERE TraceId != '' GROUP BY TraceId`,
  ]
}

export function logsTables({ logs_table_name: name, ttl }: OtelTables): string[] {
  return [
    `CREATE TABLE IF NOT EXISTS ${quoted(name)} (
      Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
      TimestampTime DateTime DEFAULT toDateTime(Timestamp),
      TraceId String CODEC(ZSTD(1)),
      SpanId String CODEC(ZSTD(1)),
      TraceFlags UInt8,
      SeverityText LowCardinality(String) CODEC(ZSTD(1)),
      SeverityNumber UInt8,
      ServiceName LowCardinality(String) CODEC(ZSTD(1)),
      Body String CODEC(ZSTD(1)),
      ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
      ResourceAttributes ${ATTRIBUTES},
      ScopeSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
      ScopeName String CODEC(ZSTD(1)),
      ScopeVersion LowCardinality(String) CODEC(ZSTD(1)),
      ScopeAttributes ${ATTRIBUTES},
      LogAttributes ${ATTRIBUTES},
      EventName String CODEC(ZSTD(1)),
      INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
      ${indexes('res_attr', 'ResourceAttributes')},
      ${indexes('scope_attr', 'ScopeAttributes')},
      ${indexes('log_attr', 'LogAttributes')},
      INDEX idx_body Body TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8
    ) ENGINE = MergeTree
    PARTITION BY toDate(TimestampTime)
    PRIMARY KEY (ServiceName, TimestampTime)
    ORDER BY (ServiceName, TimestampTime, Timestamp)
    ${expiry('TimestampTime', ttl)}
    SETTINGS ${SETTINGS}`,
  ]
}

/** A name as users may give it: anything, so it is quoted. */
export const quoted = (name: string): string => `"${name.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/** Deduplication is ours: a retried insert is stored once, its rows in the lookup table too. */
const SETTINGS = `index_granularity = 8192, ttl_only_drop_parts = 1, non_replicated_deduplication_window = ${DEDUPLICATION_WINDOW}`

const items = (column: string) =>
  `${column.replace(/s$/, '')}Items Array(String) ALIAS arrayMap(kv -> concat(kv.1, '=', kv.2), CAST(${column}, 'Array(Tuple(String, String))'))`

const indexes = (name: string, column: string) =>
  ['key', 'value']
    .map((part) => `INDEX idx_${name}_${part} map${part === 'key' ? 'Keys' : 'Values'}(${column}) TYPE bloom_filter(0.01) GRANULARITY 1`)
    .join(',\n      ')

const expiry = (column: string, ttl: number) => (ttl > 0 ? `TTL ${column} + toIntervalSecond(${Math.ceil(ttl / 1_000)})` : '')
