// Stage A again, for rollouts that are stored: from their outlines, since their spans may have expired. For a method that changed,
// and for a reward that came late. Stage B follows for every group concerned, and both are written together, so that what was late or
// changed takes the same way as what was on time.

import { assignCredit } from '../credit/assign.ts'
import { methods, type MethodName } from '../credit/index.ts'
import { giveRewards } from '../data/policy_calls.ts'
import type { RewardOptions } from '../data/rewards.ts'
import type { CreditSpec, Rollout, Transition } from '../data/rollout.ts'
import { routeKey, splitKey } from '../data/routing.ts'
import type { CreditJob } from './credit_job.ts'
import type { Writer } from './credit_rows.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import { restore, type Outline } from './outline.ts'
import type { RolloutKey } from './reward_targets.ts'
import { STORED_ROLLOUT, type RolloutRow } from './rollout_rows.ts'

export interface Recredit {
  /** Only rollouts that ended at this time or later, ms since the epoch. */
  readonly since?: number
  /** How they are credited from now on; what is not given stays as it was. */
  readonly credit?: Partial<CreditSpec>
  readonly reward_options?: RewardOptions
}

export interface Recredited {
  readonly rollouts: number
  readonly groups: number
}

/** A rollout with new returns, as it is to be stored. */
export interface Credited {
  readonly row: RolloutRow
  readonly credit: CreditSpec
  readonly steps: readonly CreditedStep[]
}

/** What credit makes of a transition. Thousands are held at once, so nothing else is. */
export type CreditedStep = Pick<
  Transition,
  'step' | 'agent' | 'reward_outcome' | 'reward_intermediate' | 'reward_parts' | 'return' | 'advantage' | 'credit_method'
>

/** What becomes of them is held in memory. */
const TOGETHER = 2_000
/** So many outlines are read at a time. */
const READ_TOGETHER = 2_500

type Deps = Writer & { readonly credit: CreditJob }

export async function recredit({ credit, ...writer }: Deps, request: Recredit): Promise<Recredited> {
  const { client, run } = writer
  const query = `
    SELECT rollout_id, attempt_id FROM rollouts FINAL
    WHERE credit != '' AND ended_at >= fromUnixTimestamp64Milli({since:Int64}) ORDER BY group_id, rollout_id, attempt_id`
  const wanted = await run(async () =>
    (await client.query({ query, query_params: { since: request.since ?? 0 }, format: 'JSONEachRow' })).json<RolloutKey>(),
  )
  const groups = new Set<string>()
  let rollouts = 0
  const become = (row: RolloutRow): Credited => {
    if (row.group_id !== '') groups.add(row.group_id)
    rollouts++
    const outline = JSON.parse(row.outline) as Outline
    return creditAgain(row, { ...outline, reward_options: request.reward_options ?? outline.reward_options }, request.credit)
  }
  for (let i = 0; i < wanted.length; i += TOGETHER) await credit.again(wanted.slice(i, i + TOGETHER), become, { settled: true })
  return { rollouts, groups: groups.size }
}

/** What becomes of a stored rollout; null where it stays as it is. */
export type Become = (row: RolloutRow) => Credited | null

/**
 * What becomes of those of the rollouts that were ever credited. Some are read while the ones before are credited, in the order of the
 * table, so that none of its blocks is read twice; and taken one by one, since ten thousand outlines fill the memory.
 */
export async function storedRollouts(deps: Writer, rollouts: readonly RolloutKey[], become: Become): Promise<Credited[]> {
  const keys = [...new Set(rollouts.map(({ rollout_id, attempt_id }) => routeKey(rollout_id, attempt_id)))].sort()
  const parts = Array.from({ length: Math.ceil(keys.length / READ_TOGETHER) }, (_, i) =>
    keys.slice(i * READ_TOGETHER, (i + 1) * READ_TOGETHER),
  )
  const all: Credited[] = []
  let next = parts.length > 0 ? readRollouts(deps, parts[0]!) : undefined
  for (let i = 1; next; i++) {
    const answer = await next
    next = i < parts.length ? readRollouts(deps, parts[i]!) : undefined
    next?.catch(() => {}) // it is told when its turn comes
    for await (const rows of answer.stream<RolloutRow>()) {
      for (const row of rows) {
        const credited = become(row.json())
        if (credited) all.push(credited)
      }
    }
  }
  return all
}

function readRollouts({ client, run }: Writer, keys: readonly string[]) {
  const query = `
    SELECT ${STORED_ROLLOUT} FROM rollouts FINAL
    WHERE tenant = '' AND rollout_id IN ${textList(new Set(keys.map((key) => splitKey(key).rollout_id)))}
      AND concat(rollout_id, '\\0', attempt_id) IN ${textList(keys)} AND credit != ''`
  const clickhouse_settings = { ...LONG_STATEMENT, ...SMALL_STATEMENT, output_format_json_quote_64bit_integers: 0 } as const
  return run(() => client.query({ query, format: 'JSONEachRow', clickhouse_settings }))
}

/** @param credit what is to be otherwise than it was */
export function creditAgain(row: RolloutRow, outline: Outline, credit: Partial<CreditSpec> = {}): Credited {
  const { calls, tools, rewards, tree } = restore(outline)
  const taken = calls.filter((call) => call.taken)
  const picked = taken.filter(({ step }) => step !== null).sort((a, b) => a.step! - b.step!)
  const found = giveRewards({ rewards, tree }, taken, picked, outline.reward_options)
  const transitions = picked.map((call, i): Transition => {
    const { intermediate, parts } = found.given[i]!
    return {
      step: call.step!,
      span_id: call.span_id,
      parent_step: -1,
      trace_id: '',
      policy: '',
      policy_version: null,
      agent: call.agent ?? '',
      model: '',
      response_id: '',
      call,
      reward_outcome: found.rewards.outcome,
      reward_intermediate: intermediate,
      reward_parts: { ...found.rewards.parts, ...parts },
      return: null,
      advantage: null,
      weight: null,
      credit_method: '',
      flags: [],
    }
  })
  const spec = { ...(JSON.parse(row.credit) as CreditSpec), ...credit }
  const method = spec.method === 'auto' || spec.method in methods ? (spec.method as MethodName | 'auto') : 'auto'
  // Field by field, as in outline.ts.
  const { tenant, rollout_id, attempt_id, revision, task_id, group_id, group_size, mode, status, closed_by, complete } = row
  const rollout: Rollout = {
    tenant,
    rollout_id,
    attempt_id,
    revision,
    task_id,
    group_id,
    group_size,
    mode,
    status,
    closed_by,
    complete,
    air_mode: row.air_mode,
    air_weight: outline.air_weight,
    covered_until: row.covered_until,
    spans: row.spans,
    ...NOTHING_ELSE,
    tree,
    calls,
    tools,
    rewards,
    transitions,
    outcome: found.rewards.outcome,
    credit: null,
  }
  const assigned = assignCredit(rollout, { ...spec, method })
  return {
    row: { ...row, outcome: assigned.outcome, credit: JSON.stringify(assigned.credit), outline: JSON.stringify(outline) },
    credit: assigned.credit!,
    steps: assigned.transitions.map((t) => ({
      step: t.step,
      agent: t.agent,
      reward_outcome: t.reward_outcome,
      reward_intermediate: t.reward_intermediate,
      reward_parts: t.reward_parts,
      return: t.return,
      advantage: t.advantage,
      credit_method: t.credit_method,
    })),
  }
}

/** What a rollout is beside what it is credited by. A lambda by schedule was settled when it was first credited. */
const NOTHING_ELSE = { started_at: 0n, ended_at: 0n, trace_ids: [], problems: [], rejects: [] }
