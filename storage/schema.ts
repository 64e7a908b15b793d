// Leyden's tables, as a list of migrations. A migration that was ever released is never edited:
// the next one changes what it made. Several processes may run the same one at the same time, so
// every statement must be harmless when it is run again (IF NOT EXISTS, OR REPLACE).

export interface Migration {
  readonly version: number
  readonly name: string
  readonly statements: readonly string[]
}

export interface SchemaOptions {
  /** How long raw spans are kept, in milliseconds; 0: for ever. */
  readonly ttl: number
}

/** A retried flush finds its token here as long as fewer inserts than this came between. */
export const DEDUPLICATION_WINDOW = 10_000

const deduplicated = `non_replicated_deduplication_window = ${DEDUPLICATION_WINDOW}`

export const migrationsTable = `
CREATE TABLE IF NOT EXISTS migrations (
  version UInt32 DEFAULT 0,
  name String DEFAULT '',
  applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = ReplacingMergeTree ORDER BY version`

export const migrations = ({ ttl }: SchemaOptions): readonly Migration[] => [
  {
    version: 1,
    name: 'spans, rollouts, transitions, rewards, credits, policies, training',
    statements: [
      spans(ttl),
      spansUnique,
      rolloutMembers,
      rolloutKeys,
      rollouts,
      transitionRows,
      transitions,
      transitionsFull,
      rewards,
      rewardTargets,
      rolloutRewards,
      credits,
      policyProgress,
      rejects,
      policies,
      policyVersions,
      trainingRows,
      trainingSteps,
      leases,
    ],
  },
]

/** The only part of the schema that the configuration decides. */
export const spansTtl = (ttl: number): string => `toDateTime(received_at) + toIntervalSecond(${Math.ceil(ttl / 1_000)})`

// Read by trace: small granules, since payloads are big. Deduplication and fsync, since a receiver
// answers "stored" after this insert.
const spans = (ttl: number) => `
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
}SETTINGS index_granularity = 256, ${deduplicated}, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1`

// A client that resends after a lost answer stores a span twice. An ended copy beats an unfinished one.
const spansUnique = `
CREATE OR REPLACE VIEW spans_unique AS
SELECT * FROM spans
ORDER BY tenant, trace_id, span_id, duration DESC, received_at DESC
LIMIT 1 BY tenant, trace_id, span_id, if(signal = 'log', cityHash64(payload, resource), 0)`

const rolloutMembers = `
CREATE TABLE IF NOT EXISTS rollout_members (
  tenant LowCardinality(String) DEFAULT '',
  trace_id String DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  joined_at DateTime64(3, 'UTC') DEFAULT 0,
  INDEX rollout_ids rollout_id TYPE bloom_filter GRANULARITY 1
) ENGINE = ReplacingMergeTree(joined_at)
ORDER BY (tenant, trace_id)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1`

// Attributes that a late reward may name its rollout by: response ids, sessions, and what join_keys lists. The newest rollout has it.
const rolloutKeys = `
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

// One row commits a revision: what transition_rows holds of it becomes visible with this row.
const rollouts = `
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
  credit String DEFAULT '' COMMENT 'how group advantages are to be made, JSON',
  outline String DEFAULT '' COMMENT 'calls, tools and rewards by their place in the span tree, JSON' CODEC(ZSTD(1)),
  committed_at DateTime64(3, 'UTC') DEFAULT 0,
  INDEX group_ids group_id TYPE bloom_filter GRANULARITY 1
) ENGINE = ReplacingMergeTree(revision)
ORDER BY (tenant, rollout_id, attempt_id)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1`

// Block number and offset columns are what a lightweight UPDATE needs.
const transitionRows = `
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
  response_token_ids Array(UInt32) DEFAULT [] CODEC(T64, LZ4),
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
SETTINGS index_granularity = 1024, enable_block_number_column = 1, enable_block_offset_column = 1, ${deduplicated},
  fsync_after_insert = 1, fsync_part_directory = 1`

const liveRevisions = `SELECT tenant, rollout_id, attempt_id, max(revision) AS revision FROM rollouts GROUP BY tenant, rollout_id, attempt_id`

// The order is what makes this safe beside a writer. ClickHouse takes each table's snapshot when it
// resolves its name, subqueries from left to right but plain names before them all. Read the other
// way round, or with transition_rows as a plain name, a revision committed in between hides its
// rollout. The swap makes the small side the hash table.
const transitions = `
CREATE OR REPLACE VIEW transitions AS
SELECT * FROM (${liveRevisions}) AS live
INNER JOIN (SELECT * FROM transition_rows) AS written USING (tenant, rollout_id, attempt_id, revision)
SETTINGS query_plan_join_swap_table = 'true'`

// A chain is found by walking from each step back to where it begins; chains do not branch. Along it,
// prompts are what came before, the completion, and what is new; tokens likewise, but that where a
// prompt was tokenized otherwise than the response was sampled, only the common prefix counts.
const transitionsFull = `
CREATE OR REPLACE VIEW transitions_full AS
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

const rewards = `
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
SETTINGS ${deduplicated}, fsync_after_insert = 1, fsync_part_directory = 1`

const rewardTargets = `
CREATE TABLE IF NOT EXISTS reward_targets (
  tenant LowCardinality(String) DEFAULT '',
  reward_id String DEFAULT '',
  rollout_id String DEFAULT '',
  attempt_id String DEFAULT '',
  resolved_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(resolved_at)
ORDER BY (tenant, reward_id)`

// The ledger as it stands: of each target, name and source the latest value, with the rollout that it belongs to.
const rolloutRewards = `
CREATE OR REPLACE VIEW rollout_rewards AS
SELECT tenant, rollout_id, attempt_id, name, source, target_span_id, target_response_id,
  argMax(r.value, (r.given_at, r.received_at)) AS value,
  argMax(r.label, (r.given_at, r.received_at)) AS label,
  argMax(r.reward_id, (r.given_at, r.received_at)) AS reward_id,
  count() AS versions, max(r.given_at) AS given_at, max(r.received_at) AS received_at
FROM rewards AS r
INNER JOIN (SELECT tenant, reward_id, rollout_id, attempt_id FROM reward_targets FINAL) AS t USING (tenant, reward_id)
GROUP BY tenant, rollout_id, attempt_id, name, source, target_span_id, target_response_id,
  if(target_rollout_id = '' AND target_trace_id = '' AND target_span_id = '' AND target_response_id = '' AND target_session = '', r.reward_id, '')`

// How a policy does, version by version. A rollout counts once, whatever the number of its calls; a success is one past the middle of the
// reward range.
const policyProgress = `
CREATE OR REPLACE VIEW policy_progress AS
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

// Written last: the advantages of a group's live rows count once they carry this version.
const credits = `
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
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`

const rejects = `
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

const policies = `
CREATE TABLE IF NOT EXISTS policies (
  policy LowCardinality(String) DEFAULT '',
  base String DEFAULT '' COMMENT 'folder of the model that training began with',
  path String DEFAULT '' COMMENT 'folder of its versions',
  created_at DateTime64(3, 'UTC') DEFAULT 0,
  updated_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(updated_at)
ORDER BY policy
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`

// Nothing is updated: a change of status is one more row, and whoever becomes live comes in one block with who no longer is.
const policyVersions = `
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
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`

// Written before the update that uses them, so that nothing is used once more because a process died.
const trainingRows = `
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
  taken_at DateTime64(3, 'UTC') DEFAULT 0
) ENGINE = ReplacingMergeTree(taken_at)
ORDER BY (policy, rollout_id, attempt_id, step, epoch)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1`

const trainingSteps = `
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
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`

// Who writes what only one process may. Every renewal is a row; those of the last day are kept.
const leases = `
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
