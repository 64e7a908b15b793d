// Rewards, and who was credited with what.

import { deduplicated, durable, seldomMerged } from './settings.ts'

export const rewards = `
CREATE TABLE IF NOT EXISTS rewards (
  tenant LowCardinality(String) DEFAULT '',
  reward_id String DEFAULT '',
  target_rollout_id String DEFAULT '',
  target_trace_id String DEFAULT '',
  target_span_id String DEFAULT '',
  target_response_id String DEFAULT '',
  target_session String DEFAULT '',
  name LowCardinality(String) DEFAULT '',
  value Nullable(Float64) DEFAULT NULL,
  label String DEFAULT '',
  source LowCardinality(String) DEFAULT '',
  annotator String DEFAULT '',
  given_at DateTime64(3, 'UTC') DEFAULT 0,
  received_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = MergeTree
ORDER BY (tenant, reward_id)
SETTINGS ${deduplicated}, ${durable}, ${seldomMerged}`

export const rewardTargets = `
CREATE TABLE IF NOT EXISTS reward_targets (
  tenant LowCardinality(String) DEFAULT '',
  reward_id String DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  resolved_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(resolved_at)
ORDER BY (tenant, reward_id)
SETTINGS ${seldomMerged}`

// The ledger as it stands: of each target, name and source the latest value, with the rollout that it belongs to.
export const rolloutRewards = `
CREATE VIEW IF NOT EXISTS rollout_rewards AS
SELECT tenant, rollout_id, attempt_id, name, source, target_span_id, target_response_id,
  argMax(r.value, (r.given_at, r.received_at)) AS value,
  argMax(r.label, (r.given_at, r.received_at)) AS label,
  argMax(r.reward_id, (r.given_at, r.received_at)) AS reward_id,
  count() AS versions, max(r.given_at) AS given_at, max(r.received_at) AS received_at
FROM rewards AS r
INNER JOIN (SELECT tenant, reward_id, rollout_id, attempt_id FROM reward_targets FINAL) AS t USING (tenant, reward_id)
GROUP BY tenant, rollout_id, attempt_id, name, source, target_span_id, target_response_id,
  if(target_rollout_id = '' AND target_trace_id = '' AND target_span_id = '' AND target_response_id = '' AND target_session = '', r.reward_id, '')`

// Written last: the advantages of a group's live rows count once they carry this version. Not made durable, for which every reader would wait:
// where power fails, the rows of transition_rows are there, and a group whose rows carry no version that stands here is credited again.
export const credits = `
CREATE TABLE IF NOT EXISTS credits (
  tenant LowCardinality(String) DEFAULT '',
  group_id String DEFAULT '',
  credit_version UInt32 DEFAULT 0,
  method LowCardinality(String) DEFAULT '',
  members UInt32 DEFAULT 0,
  baseline LowCardinality(String) DEFAULT '',
  effective_size Float64 DEFAULT 0 COMMENT 'members that had a part in the baseline',
  created_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = MergeTree
ORDER BY (tenant, group_id, credit_version)
SETTINGS ${seldomMerged}`

// Who writes what only one process may. Every renewal is a row; those of the last day are kept.
export const leases = `
CREATE TABLE IF NOT EXISTS leases (
  name LowCardinality(String) DEFAULT '',
  holder String DEFAULT '',
  host String DEFAULT '',
  pid UInt32 DEFAULT 0,
  until DateTime64(3, 'UTC') DEFAULT 0,
  renewed_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = MergeTree
ORDER BY (name, holder, renewed_at)
TTL toDateTime(renewed_at) + INTERVAL 1 DAY`
