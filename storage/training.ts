// What a trainer asks of ClickHouse: which groups of a policy are ready to learn from, their transitions, and a record of what was
// used and what came of it.

import type { ClickHouseClient } from '@clickhouse/client'

import type { Status } from '../data/rollout.ts'
import { readTurns } from './training_turns.ts'

/** A group of rollouts that is credited, and of whose rows some were not trained on. */
export interface ReadyGroup {
  readonly group_id: string
  readonly credit_version: number
  /** Oldest version among those that sampled its rows; null where no row says. */
  readonly oldest: number | null
  /** Largest |advantage|: below 1e-9 there is nothing to learn. */
  readonly signal: number
  readonly rollouts: number
}

/** A transition to learn from, with its whole prompt. Fields are columns of the view `transitions_full` and of `rollouts`. */
export interface TrainingTransition {
  readonly group_id: string
  readonly rollout_id: string
  readonly attempt_id: string
  readonly revision: number
  readonly step: number
  readonly task_id: string
  readonly agent: string
  readonly policy_version: number | null
  readonly prompt_token_ids: readonly number[]
  readonly response_token_ids: readonly number[]
  /** Of the sampler; empty where it gave none. NaN: the token was forced on it. */
  readonly response_logprobs: readonly number[]
  /**
   * engine: ids and log-probabilities are those of the distribution that was sampled from. retokenized: the trainer made ids of the text,
   * as no stored transition says.
   */
  readonly token_source: 'engine' | 'attribute' | 'raw_body' | 'none' | 'retokenized'
  /** Messages, where not all rows have token ids; else nothing, as in completion and tools. */
  readonly prompt_messages: string
  readonly completion: string
  readonly tools: string
  readonly params: Readonly<Record<string, unknown>>
  readonly finish_reason: string
  readonly reward_outcome: number | null
  readonly reward_intermediate: number | null
  readonly return: number | null
  readonly advantage: number | null
  /** 0: nothing is learned from it. */
  readonly weight: number | null
  readonly credit_version: number
  /** Of its rollout. */
  readonly outcome: number | null
  readonly status: Status
  /** JSON of how it was credited. */
  readonly credit: string
}

/** One use of a transition, before it happens. */
export interface TrainingRow extends Pick<
  TrainingTransition,
  'group_id' | 'rollout_id' | 'attempt_id' | 'revision' | 'step' | 'credit_version' | 'policy_version' | 'token_source'
> {
  /** From 1. */
  readonly epoch: number
}

/** What a step did, as `training_steps` keeps it. */
export interface TrainingStep {
  readonly step: number
  readonly algorithm: string
  readonly learning_rate: number
  readonly groups: number
  readonly rollouts: number
  readonly transitions: number
  readonly rows: number
  readonly tokens: number
  readonly trained_tokens: number
  readonly dropped_groups: number
  readonly refused: Readonly<Record<string, number>>
  readonly staleness: number
  readonly reward: number
  readonly success: number
  readonly loss: number
  readonly kl: number
  readonly entropy: number
  readonly clip_fraction: number
  /** Before weights are cut: about 1, unless the sampler is another policy. */
  readonly weight_mean: number
  /** As they are used. */
  readonly weight_ess: number
  readonly weight_truncated: number
  /** Largest of the updates', before clipping. */
  readonly grad_norm: number
  /** ratio_mean, ratio_max, and what only some algorithms have. */
  readonly metrics: Readonly<Record<string, number>>
  readonly waited: number
  readonly seconds: number
}

export interface Evaluation {
  readonly version: number
  readonly rollouts: number
  /** Mean outcome. */
  readonly reward: number
  readonly success: number
}

export interface Training {
  /** Groups without a row older than `minimum` (null: whatever the version), the oldest version first. */
  ready(minimum: number | null): Promise<ReadyGroup[]>
  /** Rows of mode train that were not used before, or that `update` was to use when its process died. The same order each time. */
  transitions(groups: readonly string[], update: number): Promise<TrainingTransition[]>
  /** Groups whose rows were taken for an update, in the order of `ready` then. */
  taken(update: number): Promise<string[]>
  /** Says which rows an update is about to use. One block: all or none. */
  take(update: number, rows: readonly TrainingRow[]): Promise<void>
  record(step: TrainingStep): Promise<void>
  steps(): Promise<TrainingStep[]>
  /** How versions did on rollouts of mode val, oldest first. */
  evaluations(): Promise<Evaluation[]>
}

/** More ready groups than this are not looked at together. */
const MAX_READY = 1_000

export function trainingOf(client: ClickHouseClient, policy: string): Training {
  // Two questions, in this order: what `credits` names is complete, and rows that say another version are being credited again.
  async function ready(minimum: number | null): Promise<ReadyGroup[]> {
    const credited = await select<{ group_id: string; credit_version: number }>(CREDITED, {
      minimum: minimum ?? 0,
      any_version: minimum === null,
    })
    if (credited.length === 0) return []
    const versions = new Map(credited.map(({ group_id, credit_version }) => [group_id, credit_version]))
    const groups = await select<Omit<ReadyGroup, 'credit_version'> & { credit_versions: number[] }>(GROUPS, {
      groups: [...versions.keys()],
    })
    return groups
      .filter(({ group_id, credit_versions: [only, ...others] }) => others.length === 0 && only === versions.get(group_id))
      .filter(({ oldest }) => minimum === null || (oldest !== null && oldest >= minimum))
      .map(({ credit_versions, ...group }) => ({ ...group, credit_version: credit_versions[0]! }))
  }

  const transitions = (groups: readonly string[], update: number) => readTurns(client, { policy, groups, update })

  async function taken(update: number): Promise<string[]> {
    const groups = await select<{ group_id: string }>(
      `SELECT group_id FROM training_rows FINAL WHERE policy = {policy:String} AND update = {update:UInt64}
       GROUP BY group_id ORDER BY min(place)`,
      { update },
    )
    return groups.map(({ group_id }) => group_id)
  }

  async function take(update: number, rows: readonly TrainingRow[]): Promise<void> {
    const places = new Map([...new Set(rows.map(({ group_id }) => group_id))].map((group_id, place) => [group_id, place]))
    const taken_at = now()
    await insert(
      'training_rows',
      rows.map(({ group_id, rollout_id, attempt_id, revision, step, credit_version, policy_version, token_source, epoch }) => ({
        ...{
          policy,
          update,
          taken_at,
          group_id,
          rollout_id,
          attempt_id,
          revision,
          step,
          credit_version,
          policy_version,
          token_source,
          epoch,
        },
        place: places.get(group_id),
      })),
    )
  }

  const record = (step: TrainingStep) => insert('training_steps', [{ ...step, policy, finished_at: now() }])

  const steps = () =>
    select<TrainingStep>('SELECT * EXCEPT (policy, finished_at) FROM training_steps FINAL WHERE policy = {policy:String} ORDER BY step')

  const evaluations = () => select<Evaluation>(EVALUATIONS)

  async function select<T>(query: string, query_params: Record<string, unknown> = {}): Promise<T[]> {
    const answer = await client.query({
      query,
      query_params: { policy, ...query_params },
      format: 'JSONEachRow',
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
    })
    return answer.json<T>()
  }

  async function insert(table: string, values: readonly object[]): Promise<void> {
    if (values.length > 0) await client.insert({ table, values, format: 'JSONEachRow', clickhouse_settings: { async_insert: 0 } })
  }

  return { ready, transitions, taken, take, record, steps, evaluations }
}

const now = (): string => (Date.now() / 1_000).toFixed(3)

const UNUSED = `(rollout_id, attempt_id, step) NOT IN (SELECT rollout_id, attempt_id, step FROM training_rows WHERE policy = {policy:String})`

const CREDITED = `
SELECT group_id, max(credits.credit_version) AS credit_version FROM credits
WHERE group_id IN (
  SELECT group_id FROM transition_rows
  WHERE policy = {policy:String} AND ({any_version:Bool} OR policy_version >= {minimum:UInt64}) AND credit_version IS NOT NULL AND ${UNUSED}
)
GROUP BY group_id ORDER BY min(created_at), group_id LIMIT ${MAX_READY}`

/** A row that is not credited makes a second, impossible credit version. */
const GROUPS = `
SELECT group_id, groupUniqArray(ifNull(credit_version, 0)) AS credit_versions, uniqExactIf((rollout_id, attempt_id), own) AS rollouts,
  minIf(policy_version, own) AS oldest, maxIf(abs(ifNull(advantage, 0)), own AND unused) AS signal
FROM (
  SELECT *, policy = {policy:String} AND ifNull(weight, 1) > 0 AS own, ${UNUSED} AS unused FROM transitions WHERE group_id IN {groups:Array(String)}
)
GROUP BY group_id HAVING countIf(own AND unused) > 0
ORDER BY oldest ASC NULLS FIRST, min(started_at), group_id`

/** A rollout of mode val is pinned to one version. */
const EVALUATIONS = `
SELECT version, count() AS rollouts, avg(outcome) AS reward, avg(outcome > (range.1 + range.2) / 2) AS success
FROM (
  SELECT tenant, rollout_id, attempt_id, outcome, JSONExtract(credit, 'reward_range', 'Tuple(Float64, Float64)') AS range
  FROM rollouts FINAL WHERE mode = 'val' AND outcome IS NOT NULL AND credit != ''
) AS r
INNER JOIN (
  SELECT tenant, rollout_id, attempt_id, min(policy_version) AS version FROM transition_rows
  WHERE policy = {policy:String} AND policy_version IS NOT NULL AND rollout_id IN (SELECT rollout_id FROM rollouts WHERE mode = 'val')
  GROUP BY tenant, rollout_id, attempt_id
) AS t USING (tenant, rollout_id, attempt_id)
GROUP BY version ORDER BY version`
