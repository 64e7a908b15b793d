// Stage A again, for rollouts that are stored: from their outlines, since their spans may have expired. For a method that changed,
// and for a reward that comes after the spans went. Stage B follows for every group concerned, so that what was late or changed takes
// the same way as what was on time; until `credits` names the new version, readers of whole groups keep to the old one.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

import { assignCredit } from '../credit/assign.ts'
import { methods, type MethodName } from '../credit/index.ts'
import { giveRewards } from '../data/policy_calls.ts'
import type { RewardOptions } from '../data/rewards.ts'
import type { CreditSpec, Rollout, Transition } from '../data/rollout.ts'
import type { CreditJob, CreditJobOptions } from './credit_job.ts'
import { restore, type Outline, type OutlinedReward } from './outline.ts'
import type { RolloutKey } from './reward_targets.ts'
import { openRows, putFloat64, putMap, putNullable, putString, written, type Rows } from './row_binary.ts'
import { withStaging } from './staging.ts'

export interface Recredit {
  /** Only rollouts that ended at this time or later, ms since the epoch. */
  readonly since?: number
  /** Only these. */
  readonly rollouts?: readonly RolloutKey[]
  /** How they are credited from now on; what is not given stays as it was. */
  readonly credit?: Partial<CreditSpec>
  readonly reward_options?: RewardOptions
  /** Rewards that their outlines do not hold yet; targets are nodes of the outline. */
  readonly added?: (rollout: RolloutKey, outline: Outline) => readonly OutlinedReward[]
}

export interface Recredited {
  readonly rollouts: number
  readonly groups: number
}

const TOGETHER = 500

type Deps = Pick<CreditJobOptions, 'run' | 'insert'> & { readonly client: ClickHouseClient; readonly credit: CreditJob }

export async function recredit(deps: Deps, request: Recredit): Promise<Recredited> {
  const { client, run, credit } = deps
  const select = async <T>(query: string, query_params: Record<string, unknown>): Promise<T[]> =>
    run(async () => (await client.query({ query, query_params, format: 'JSONEachRow' })).json<T>())

  const wanted =
    request.rollouts ??
    (await select<RolloutKey>(
      `SELECT rollout_id, attempt_id FROM rollouts FINAL
       WHERE credit != '' AND ended_at >= fromUnixTimestamp64Milli({since:Int64}) ORDER BY group_id, rollout_id, attempt_id`,
      { since: request.since ?? 0 },
    ))
  const groups = new Set<string>()
  let count = 0
  for (let i = 0; i < wanted.length; i += TOGETHER) {
    const keys = wanted.slice(i, i + TOGETHER).map(({ rollout_id, attempt_id }) => `${rollout_id}\0${attempt_id}`)
    const ids = wanted.slice(i, i + TOGETHER).map(({ rollout_id }) => rollout_id)
    const rows = await select<StoredRollout>(STORED, { ids, keys })
    await write(
      deps,
      rows.map((row) => creditAgain(row, request)),
    )
    for (const { group_id } of rows) if (group_id !== '') groups.add(group_id)
    count += rows.length
  }
  await credit.again([...groups])
  return { rollouts: count, groups: groups.size }
}

interface StoredRollout extends Pick<
  Rollout,
  'rollout_id' | 'attempt_id' | 'revision' | 'task_id' | 'group_id' | 'mode' | 'status' | 'air_mode'
> {
  readonly credit: string
  readonly outline: string
  readonly steps: readonly number[]
  /** In tuples, since a groupArray leaves NULLs out. */
  readonly versions: readonly (readonly [number | null])[]
}

const STORED = `
SELECT rollout_id, attempt_id, revision, task_id, group_id, mode, status, air_mode, credit, outline, steps, versions
FROM (SELECT * FROM rollouts FINAL WHERE rollout_id IN {ids:Array(String)} AND concat(rollout_id, '\\0', attempt_id) IN {keys:Array(String)}) AS r
LEFT JOIN (
  SELECT rollout_id, attempt_id, revision, groupArray(step) AS steps, groupArray(tuple(policy_version)) AS versions
  FROM (SELECT * FROM transition_rows WHERE rollout_id IN {ids:Array(String)} ORDER BY step)
  GROUP BY rollout_id, attempt_id, revision
) AS t USING (rollout_id, attempt_id, revision)
WHERE credit != ''
SETTINGS output_format_json_quote_64bit_integers = 0`

interface Credited extends Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision' | 'outcome' | 'transitions'> {
  readonly credit: CreditSpec
  readonly outline: Outline
}

function creditAgain(row: StoredRollout, request: Recredit): Credited {
  const kept = JSON.parse(row.outline) as Outline
  const outline: Outline = {
    ...kept,
    rewards: [...kept.rewards, ...(request.added?.(row, kept) ?? [])],
    reward_options: request.reward_options ?? kept.reward_options,
  }
  const { calls, tools, rewards, tree } = restore(outline)
  const taken = calls.filter((call) => call.taken)
  const picked = taken.filter(({ step }) => step !== null).sort((a, b) => a.step! - b.step!)
  const versions = new Map(row.steps.map((step, i) => [step, row.versions[i]![0]]))
  const found = giveRewards({ rewards, tree }, taken, picked, outline.reward_options)
  const transitions = picked.map((call, i): Transition => {
    const { intermediate, parts } = found.given[i]!
    return {
      ...{ step: call.step!, span_id: call.span_id, parent_step: -1, trace_id: '', policy: '', model: '', response_id: '' },
      policy_version: versions.get(call.step!) ?? null,
      agent: call.agent ?? '',
      call,
      reward_outcome: found.rewards.outcome,
      reward_intermediate: intermediate,
      reward_parts: { ...found.rewards.parts, ...parts },
      ...{ return: null, advantage: null, weight: null, credit_method: '', flags: [] },
    }
  })
  const before = JSON.parse(row.credit) as CreditSpec
  const spec = { ...before, ...request.credit }
  const method = spec.method === 'auto' || spec.method in methods ? (spec.method as MethodName | 'auto') : 'auto'
  const rollout = { ...NOTHING_ELSE, ...row, tree, calls, tools, rewards, transitions, outcome: found.rewards.outcome }
  const { credit, ...credited } = assignCredit({ ...rollout, air_weight: outline.air_weight, credit: null }, { ...spec, method })
  return { ...row, outcome: credited.outcome, transitions: credited.transitions, credit: credit!, outline }
}

/** What a rollout is beside what it is credited by. */
const NOTHING_ELSE: Omit<Rollout, keyof StoredRollout | 'tree' | 'calls' | 'tools' | 'rewards' | 'transitions' | 'outcome' | 'credit'> = {
  ...{ tenant: '', group_size: 0, closed_by: 'late', complete: true, started_at: 0n, ended_at: 0n, spans: 0, covered_until: 0 },
  ...{ trace_ids: [], problems: [], rejects: [] },
}

const STEP_KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision), '\\0', toString(step))"
const KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision))"

/** The revision stays: of two rows of one revision the later one is the rollout. */
async function write({ client, run, insert }: Deps, rollouts: readonly Credited[]): Promise<void> {
  const command = (query: string) => run(() => client.command({ query }))
  const steps = openRows()
  const whole = openRows()
  for (const rollout of rollouts) {
    putSteps(steps, rollout)
    putWhole(whole, rollout)
  }
  if (steps.count > 0) {
    await withStaging({ command }, STEP_COLUMNS, async (staging) => {
      await insert(staging, STEP_NAMES, written(steps), randomUUID())
      const set = SET.map((column) => `${column} = joinGet(${staging}, '${column}', ${STEP_KEY})`)
      await command(
        `UPDATE transition_rows SET ${set.join(', ')}
         WHERE tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${staging}) AND ${STEP_KEY} IN (SELECT key FROM ${staging})`,
      )
    })
  }
  if (whole.count === 0) return
  await withStaging({ command }, WHOLE_COLUMNS, async (staging) => {
    await insert(staging, WHOLE_NAMES, written(whole), randomUUID())
    const replaced = ['outcome', 'credit', 'outline'].map((column) => `joinGet(${staging}, '${column}', ${KEY}) AS ${column}`)
    await command(
      `INSERT INTO rollouts SELECT * REPLACE (${replaced.join(', ')}, now64(3) AS committed_at) FROM rollouts FINAL
       WHERE tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${staging}) AND ${KEY} IN (SELECT key FROM ${staging})`,
    )
  })
}

const SET = ['reward_outcome', 'reward_intermediate', 'reward_parts', 'return', 'credit_method']
const STEP_COLUMNS = `key String, rollout_id String, reward_outcome Nullable(Float64), reward_intermediate Nullable(Float64),
  reward_parts Map(LowCardinality(String), Float64), return Nullable(Float64), credit_method LowCardinality(String)`
const STEP_NAMES = `key, rollout_id, ${SET.join(', ')}`

function putSteps(rows: Rows, { rollout_id, attempt_id, revision, transitions }: Credited): void {
  for (const t of transitions) {
    putString(rows, [rollout_id, attempt_id, revision, t.step].join('\0'))
    putString(rows, rollout_id)
    putNullable(rows, t.reward_outcome, putFloat64)
    putNullable(rows, t.reward_intermediate, putFloat64)
    putMap(rows, t.reward_parts, putFloat64)
    putNullable(rows, t.return, putFloat64)
    putString(rows, t.credit_method)
    rows.count++
  }
}

const WHOLE_COLUMNS = 'key String, rollout_id String, outcome Nullable(Float64), credit String, outline String'
const WHOLE_NAMES = 'key, rollout_id, outcome, credit, outline'

function putWhole(rows: Rows, { rollout_id, attempt_id, revision, outcome, credit, outline }: Credited): void {
  putString(rows, [rollout_id, attempt_id, revision].join('\0'))
  putString(rows, rollout_id)
  putNullable(rows, outcome, putFloat64)
  putString(rows, JSON.stringify(credit))
  putString(rows, JSON.stringify(outline))
  rows.count++
}
