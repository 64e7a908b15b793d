// Rollouts, their transitions, and the calls that became none.

import { deduplicated, durable, seldomMerged } from './settings.ts'

// One row commits a revision: what transition_rows holds of it becomes visible with this row. It has all that a late score takes, and
// is written again with each, so what is large and never changes stands in outlines. Small granules, since a score reads a few rows.
export const rollouts = `
CREATE TABLE IF NOT EXISTS rollouts (
  tenant LowCardinality(String) DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  task_id String DEFAULT '',
  group_id String DEFAULT '' COMMENT 'as given, else task id, @, policy version',
  group_size UInt32 DEFAULT 0 COMMENT '0 where nobody said',
  mode LowCardinality(String) DEFAULT 'train',
  status LowCardinality(String) DEFAULT '',
  closed_by LowCardinality(String) DEFAULT '',
  complete Bool DEFAULT false,
  revision UInt32 DEFAULT 0,
  started_at DateTime64(9, 'UTC') DEFAULT 0,
  ended_at DateTime64(9, 'UTC') DEFAULT 0,
  spans UInt64 DEFAULT 0,
  covered_until DateTime64(3, 'UTC') DEFAULT 0,
  calls UInt32 DEFAULT 0,
  transitions UInt32 DEFAULT 0,
  outcome Nullable(Float64) DEFAULT NULL,
  air_mode LowCardinality(String) DEFAULT '',
  credit LowCardinality(String) DEFAULT '' COMMENT 'how it was credited, and how its group is to be, JSON',
  agents Array(LowCardinality(String)) DEFAULT [] COMMENT 'of each transition',
  returns Array(Nullable(Float64)) DEFAULT [] COMMENT 'of each transition; what its group is compared by',
  next Array(Int32) DEFAULT [] COMMENT 'position of the transition that followed each, -1 for none; empty where only the outline tells',
  air Array(Float64) DEFAULT [] COMMENT 'what AIR gave each, by air_mode: its potential or its bonus',
  rewards String DEFAULT '' COMMENT 'by their place in the outline and among the transitions, JSON' CODEC(LZ4),
  committed_at DateTime64(3, 'UTC') DEFAULT 0,
  INDEX group_ids group_id TYPE bloom_filter GRANULARITY 1
) ENGINE = ReplacingMergeTree(revision)
ORDER BY (tenant, rollout_id, attempt_id)
SETTINGS index_granularity = 128, ${durable}, ${seldomMerged}`

// Of every revision, written before the row that commits it.
export const outlines = `
CREATE TABLE IF NOT EXISTS outlines (
  tenant LowCardinality(String) DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  revision UInt32 DEFAULT 0,
  outline String DEFAULT '' COMMENT 'calls and tools by their place in the span tree, JSON' CODEC(ZSTD(1)),
  inserted_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = MergeTree
PARTITION BY toYYYYMM(inserted_at)
ORDER BY (tenant, rollout_id, attempt_id, revision)
SETTINGS index_granularity = 256, ${deduplicated}, ${durable}`

// Block number and offset columns are what a lightweight UPDATE needs; small granules are less for it to read. Each UPDATE makes a part
// of its own, and merging every few of them would write those of thousands of rollouts again for each score that comes by itself. Responses
// are what a batch takes longest to unpack, all of a granule for any row of it: LZ4 alone does it for half the CPU of T64 and LZ4, and takes 3 %
// more of the disk for tokens of text, in which T64 hides what repeats.
export const transitionRows = `
CREATE TABLE IF NOT EXISTS transition_rows (
  tenant LowCardinality(String) DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  revision UInt32 DEFAULT 0,
  step UInt32 DEFAULT 0,
  span_id String DEFAULT '',
  parent_step Int32 DEFAULT -1,
  trace_id String DEFAULT '',
  task_id String DEFAULT '',
  group_id String DEFAULT '',
  policy LowCardinality(String) DEFAULT '',
  policy_version Nullable(UInt64) DEFAULT NULL,
  agent LowCardinality(String) DEFAULT '',
  model LowCardinality(String) DEFAULT '',
  response_id String DEFAULT '',
  prompt_messages String DEFAULT '[]' COMMENT 'JSON; only what is new since the completion of parent_step' CODEC(ZSTD(1)),
  completion String DEFAULT '' COMMENT 'JSON' CODEC(ZSTD(1)),
  tools String DEFAULT '[]' COMMENT 'JSON' CODEC(ZSTD(1)),
  finish_reason LowCardinality(String) DEFAULT '',
  params String DEFAULT '{}' COMMENT 'JSON' CODEC(ZSTD(1)),
  prompt_token_ids Array(UInt32) DEFAULT [] COMMENT 'what follows the first prefix_length tokens' CODEC(T64, LZ4),
  prefix_length UInt32 DEFAULT 0,
  response_token_ids Array(UInt32) DEFAULT [] CODEC(LZ4),
  response_logprobs Array(Float32) DEFAULT [] CODEC(LZ4),
  token_source LowCardinality(String) DEFAULT 'none',
  reward_outcome Nullable(Float64) DEFAULT NULL,
  reward_intermediate Nullable(Float64) DEFAULT NULL,
  reward_parts Map(LowCardinality(String), Float64) DEFAULT map(),
  return Nullable(Float64) DEFAULT NULL,
  advantage Nullable(Float64) DEFAULT NULL,
  weight Nullable(Float64) DEFAULT NULL,
  credit_method LowCardinality(String) DEFAULT '',
  credit_version Nullable(UInt32) DEFAULT NULL COMMENT 'of the group; see credits',
  started_at DateTime64(9, 'UTC') DEFAULT 0,
  duration UInt64 DEFAULT 0,
  usage Map(LowCardinality(String), UInt64) DEFAULT map(),
  flags Array(LowCardinality(String)) DEFAULT [],
  inserted_at DateTime64(3, 'UTC') DEFAULT 0,
  INDEX group_ids group_id TYPE bloom_filter GRANULARITY 4
) ENGINE = MergeTree
PARTITION BY toYYYYMM(inserted_at)
ORDER BY (tenant, rollout_id, attempt_id, revision, step)
SETTINGS index_granularity = 256, enable_block_number_column = 1, enable_block_offset_column = 1,
  ${deduplicated}, ${durable}`

// Merged by FINAL, which takes a third less than grouping does.
const liveRevisions = `SELECT tenant, rollout_id, attempt_id, revision FROM rollouts FINAL`

// The order is what makes this safe beside a writer. ClickHouse takes each table's snapshot when it
// resolves its name, subqueries from left to right but plain names before them all. Read the other
// way round, or with transition_rows as a plain name, a revision committed in between hides its
// rollout. Which side becomes the hash table ClickHouse chooses by what each query leaves of them. Token ids make rows so wide that a block
// of its own 1 MB holds a few thousand of them: larger ones take a sixth less.
export const transitions = `
CREATE VIEW IF NOT EXISTS transitions AS
SELECT * FROM (${liveRevisions}) AS live
INNER JOIN (SELECT * FROM transition_rows) AS written USING (tenant, rollout_id, attempt_id, revision)
SETTINGS preferred_block_size_bytes = 32000000`

// A chain is found by walking from each step back to where it begins; chains do not branch. Along it,
// prompts are what came before, the completion, and what is new; tokens likewise, but that where a
// prompt was tokenized otherwise than the response was sampled, only the common prefix counts.
export const transitionsFull = `
CREATE VIEW IF NOT EXISTS transitions_full AS
SELECT * EXCEPT (chain, turns) REPLACE (
  concat('[', arrayStringConcat(arrayFilter(part -> part != '', arrayFlatten(arrayMap(
    (turn, i) -> [substring(turn.1, 2, length(turn.1) - 2), if(i < length(turns), turn.2, '')],
    turns, arrayEnumerate(turns)))), ','), ']') AS prompt_messages,
  arrayConcat(arraySlice(arrayFold(
    (before, turn) -> arrayConcat(arraySlice(before, 1, turn.3), turn.4, turn.5),
    arrayPopBack(turns), CAST([], 'Array(UInt32)')), 1, prefix_length), prompt_token_ids) AS prompt_token_ids)
FROM (
  SELECT *, groupArray(tuple(prompt_messages, completion, prefix_length, prompt_token_ids, response_token_ids)) OVER (
    PARTITION BY tenant, rollout_id, attempt_id, chain ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS turns
  FROM (
    SELECT * EXCEPT links, arrayFold((at, link) -> if(link.1 = at AND link.2 >= 0, link.2, at), arrayReverse(links), toInt32(step)) AS chain
    FROM (
      SELECT *, groupArray(tuple(toInt32(step), parent_step)) OVER (
        PARTITION BY tenant, rollout_id, attempt_id ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS links
      FROM transitions WHERE rollout_id IN {rollouts:Array(String)})))`

export const rejects = `
CREATE TABLE IF NOT EXISTS rejects (
  tenant LowCardinality(String) DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  revision UInt32 DEFAULT 0,
  span_id String DEFAULT '',
  policy LowCardinality(String) DEFAULT '',
  reason LowCardinality(String) DEFAULT '',
  detail String DEFAULT '' CODEC(ZSTD(1)),
  inserted_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = MergeTree
PARTITION BY toYYYYMM(inserted_at)
ORDER BY (tenant, rollout_id, attempt_id, revision, span_id)
SETTINGS ${deduplicated}`
