// Policies, their versions, and what each was trained on.

import { durable } from './settings.ts'

export const policies = `
CREATE TABLE IF NOT EXISTS policies (
  policy LowCardinality(String) DEFAULT '',
  base String DEFAULT '' COMMENT 'folder of the model that training began with',
  path String DEFAULT '' COMMENT 'folder of its versions',
  created_at DateTime64(3, 'UTC') DEFAULT 0,
  updated_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(updated_at)
ORDER BY policy
SETTINGS ${durable}`

// Nothing is updated: a change of status is one more row, and whoever becomes live comes in one block with who no longer is.
export const policyVersions = `
CREATE TABLE IF NOT EXISTS policy_versions (
  policy LowCardinality(String) DEFAULT '',
  version UInt64 DEFAULT 0 COMMENT 'how many updates made it; 0: the base',
  base String DEFAULT '',
  path String DEFAULT '' COMMENT 'folder of its files; empty once they are pruned',
  parent Nullable(UInt64) DEFAULT NULL COMMENT 'version that it was trained from',
  status LowCardinality(String) DEFAULT 'candidate' COMMENT 'candidate, live or retired',
  trained_on Map(LowCardinality(String), UInt64) DEFAULT map() COMMENT 'groups, rollouts, transitions and tokens since its parent; which ones: training_rows',
  metrics Map(LowCardinality(String), Float64) DEFAULT map(),
  created_at DateTime64(3, 'UTC') DEFAULT 0,
  updated_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(updated_at)
ORDER BY (policy, version)
SETTINGS ${durable}`

// Written before the update that uses them, so that nothing is used once more because a process died.
export const trainingRows = `
CREATE TABLE IF NOT EXISTS training_rows (
  policy LowCardinality(String) DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  step UInt32 DEFAULT 0 COMMENT 'of the transition in its rollout',
  epoch UInt32 DEFAULT 0 COMMENT 'from 1',
  update UInt64 DEFAULT 0 COMMENT 'step of training_steps that uses it',
  group_id String DEFAULT '',
  place UInt32 DEFAULT 0 COMMENT 'of the group in the update',
  revision UInt32 DEFAULT 0,
  credit_version UInt32 DEFAULT 0,
  policy_version Nullable(UInt64) DEFAULT NULL COMMENT 'that sampled it',
  token_source LowCardinality(String) DEFAULT '' COMMENT 'of the transition; retokenized: ids were made of its text, see allow_retokenized',
  taken_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(taken_at)
ORDER BY (policy, rollout_id, attempt_id, step, epoch)
SETTINGS index_granularity = 1024, ${durable}`

export const trainingSteps = `
CREATE TABLE IF NOT EXISTS training_steps (
  policy LowCardinality(String) DEFAULT '',
  step UInt64 DEFAULT 0,
  algorithm LowCardinality(String) DEFAULT '',
  learning_rate Float64 DEFAULT 0,
  groups UInt32 DEFAULT 0,
  rollouts UInt32 DEFAULT 0,
  transitions UInt32 DEFAULT 0,
  rows UInt32 DEFAULT 0 COMMENT 'sequences, after turns were merged',
  tokens UInt64 DEFAULT 0 COMMENT 'in all rows',
  trained_tokens UInt64 DEFAULT 0 COMMENT 'that the policy wrote',
  dropped_groups UInt32 DEFAULT 0 COMMENT 'without signal',
  refused Map(LowCardinality(String), UInt64) DEFAULT map() COMMENT 'transitions by reason',
  staleness Float64 DEFAULT 0 COMMENT 'mean over transitions: versions published since the one that sampled it',
  reward Float64 DEFAULT 0 COMMENT 'mean outcome of the rollouts',
  success Float64 DEFAULT 0 COMMENT 'share of rollouts past the middle of the reward range',
  loss Float64 DEFAULT 0,
  kl Float64 DEFAULT 0 COMMENT 'from the weights at the start of the step, nats per token',
  entropy Float64 DEFAULT 0 COMMENT 'nats per token',
  clip_fraction Float64 DEFAULT 0,
  weight_mean Float64 DEFAULT 0 COMMENT 'importance weights of trainer against sampler',
  weight_ess Float64 DEFAULT 0 COMMENT 'effective share of the tokens under these weights',
  weight_truncated Float64 DEFAULT 0 COMMENT 'share of tokens whose weight was cut',
  grad_norm Float64 DEFAULT 0,
  metrics Map(LowCardinality(String), Float64) DEFAULT map() COMMENT 'what the algorithm tells beside these',
  waited Float64 DEFAULT 0 COMMENT 'seconds until the groups were there',
  seconds Float64 DEFAULT 0 COMMENT 'from then to the published version',
  finished_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(finished_at)
ORDER BY (policy, step)
SETTINGS ${durable}`

// How a policy does, version by version. A rollout counts once, whatever the number of its calls; a success is one past the middle of the
// reward range.
export const policyProgress = `
CREATE VIEW IF NOT EXISTS policy_progress AS
SELECT tenant, policy, policy_version, mode, count() AS rollouts, countIf(outcome IS NULL) AS unscored, avg(outcome) AS average,
  avg(outcome > (range.1 + range.2) / 2) AS success,
  sum(t.calls) AS calls, avg(spread) AS mean_abs_advantage, countIf(spread = 0) AS without_signal, min(started_at) AS first, max(started_at) AS last
FROM (
  SELECT tenant, rollout_id, attempt_id, policy, policy_version, any(reward_outcome) AS outcome, count() AS calls,
    avg(abs(advantage)) AS spread, min(started_at) AS started_at
  FROM transitions GROUP BY tenant, rollout_id, attempt_id, policy, policy_version
) AS t
INNER JOIN (
  SELECT tenant, rollout_id, attempt_id, mode, if(credit = '', (0., 1.), JSONExtract(credit, 'reward_range', 'Tuple(Float64, Float64)')) AS range
  FROM rollouts FINAL
) AS r USING (tenant, rollout_id, attempt_id)
GROUP BY tenant, policy, policy_version, mode`
