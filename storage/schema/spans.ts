// What arrived, and which rollout it belongs to.

import { deduplicated, durable, seldomMerged } from './settings.ts'

/** The only part of the schema that the configuration decides. */
export const spansTtl = (ttl: number): string => `toDateTime(received_at) + toIntervalSecond(${Math.ceil(ttl / 1_000)})`

// Read by trace: small granules, since payloads are big. Deduplication and fsync, since a receiver
// answers "stored" after this insert.
export const spans = (ttl: number) => `
CREATE TABLE IF NOT EXISTS spans (
  tenant LowCardinality(String) DEFAULT '',
  trace_id String DEFAULT '' COMMENT 'of a log record written outside of a trace: rollout id, slash, attempt id',
  start_time DateTime64(9, 'UTC') DEFAULT 0,
  span_id String DEFAULT '',
  parent_span_id String DEFAULT '',
  name LowCardinality(String) DEFAULT '',
  service LowCardinality(String) DEFAULT '',
  kind Enum8('unspecified' = 0, 'internal' = 1, 'server' = 2, 'client' = 3, 'producer' = 4, 'consumer' = 5) DEFAULT 'unspecified',
  status Enum8('unset' = 0, 'ok' = 1, 'error' = 2) DEFAULT 'unset',
  duration UInt64 DEFAULT 0 COMMENT 'nanoseconds; 0 for a span that was never ended',
  received_at DateTime64(3, 'UTC') DEFAULT 0,
  position UInt32 DEFAULT 0 COMMENT 'in the order of arrival, among those of one received_at',
  signal Enum8('span' = 0, 'log' = 1) DEFAULT 'span',
  rollout_hint String DEFAULT '' COMMENT 'rollout id, NUL, attempt id, where the span itself says so',
  response_id String DEFAULT '',
  resource String DEFAULT '' CODEC(ZSTD(1)),
  scope String DEFAULT '' CODEC(ZSTD(1)),
  payload String DEFAULT '' COMMENT 'the OTLP Span or LogRecord, protobuf' CODEC(ZSTD(1)),
  INDEX span_ids span_id TYPE bloom_filter GRANULARITY 8,
  INDEX response_ids response_id TYPE bloom_filter GRANULARITY 8
) ENGINE = MergeTree
PARTITION BY toDate(received_at)
ORDER BY (tenant, trace_id, start_time, span_id)
${
  ttl > 0
    ? `TTL ${spansTtl(ttl)}
`
    : ''
}SETTINGS index_granularity = 256, ${deduplicated}, ${durable}, ${seldomMerged}, ttl_only_drop_parts = 1`

// A client that resends after a lost answer stores a span twice. An ended copy beats an unfinished one.
export const spansUnique = `
CREATE VIEW IF NOT EXISTS spans_unique AS
SELECT * FROM spans
ORDER BY tenant, trace_id, span_id, duration DESC, received_at DESC
LIMIT 1 BY tenant, trace_id, span_id, if(signal = 'log', cityHash64(payload, resource), 0)`

export const rolloutMembers = `
CREATE TABLE IF NOT EXISTS rollout_members (
  tenant LowCardinality(String) DEFAULT '',
  trace_id String DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  joined_at DateTime64(3, 'UTC') DEFAULT 0,
  INDEX rollout_ids rollout_id TYPE bloom_filter GRANULARITY 1
) ENGINE = ReplacingMergeTree(joined_at)
ORDER BY (tenant, trace_id, rollout_id, attempt_id)
SETTINGS index_granularity = 1024, ${durable}, ${seldomMerged}`

/** Of each trace the rollout that joined it last: it has what names no rollout itself. Others that name themselves may be in it too. */
export const traceOwners = (where = '') => `
SELECT trace_id, owner.1 AS rollout_id, owner.2 AS attempt_id
FROM (SELECT trace_id, argMax((rollout_id, attempt_id), joined_at) AS owner FROM rollout_members ${where} GROUP BY trace_id)`

// Attributes that a late reward may name its rollout by: response ids, sessions, and what join_keys lists. The newest rollout has it.
export const rolloutKeys = `
CREATE TABLE IF NOT EXISTS rollout_keys (
  tenant LowCardinality(String) DEFAULT '',
  name LowCardinality(String) DEFAULT '',
  value String DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  joined_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(joined_at)
ORDER BY (tenant, name, value)
SETTINGS index_granularity = 1024`
