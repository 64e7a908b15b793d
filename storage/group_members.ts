// Groups as they are stored, to be compared: their attempts, what each transition of these returned, and which credit was the last.

import { statusRule } from '../credit/statuses.ts'
import type { CreditSpec, Rollout, Status } from '../data/rollout.ts'
import type { Writer } from './credit_rows.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import type { RolloutKey } from './reward_targets.ts'

export interface Member extends Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision' | 'mode' | 'group_size'> {
  readonly status: Status
  readonly credit: CreditSpec
  readonly scored: boolean
  readonly transitions: readonly { readonly step: number; readonly agent: string; readonly return: number | null }[]
}

type Deps = Pick<Writer, 'client' | 'run'>

interface MemberRow extends Omit<Member, 'credit' | 'scored' | 'transitions'> {
  readonly group_id: string
  readonly credit: string
  readonly scored: 0 | 1
  readonly steps: readonly number[]
  readonly agents: readonly string[]
  /** NULLs are left out of a groupArray, hence tuples. */
  readonly returns: readonly (readonly [number | null])[]
}

/** Attempts by group, in the order in which they began. */
export async function membersOf(deps: Deps, groups: readonly string[]): Promise<Map<string, Member[]>> {
  const found = new Map<string, Member[]>()
  if (groups.length === 0) return found
  const list = textList(groups)
  // The first of the two snapshots is that of `rollouts`: what a revision names there was written before.
  const rows = await select<MemberRow>(
    deps,
    `SELECT group_id, group_size, rollout_id, attempt_id, revision, mode, status, credit, outcome IS NOT NULL AS scored, steps, agents, returns
     FROM (
       SELECT * EXCEPT outline FROM rollouts FINAL
       WHERE tenant = '' AND rollout_id IN (SELECT rollout_id FROM rollouts WHERE group_id IN ${list}) AND group_id IN ${list} AND credit != ''
     ) AS r
     LEFT JOIN (
       SELECT rollout_id, attempt_id, revision, groupArray(step) AS steps, groupArray(agent) AS agents, groupArray(tuple(return)) AS returns
       FROM (SELECT * FROM transition_rows WHERE group_id IN ${list} ORDER BY step)
       GROUP BY rollout_id, attempt_id, revision
     ) AS t USING (rollout_id, attempt_id, revision)
     ORDER BY started_at, attempt_id`,
  )
  // Thousands of them were credited in the same way.
  const specs = new Map<string, CreditSpec>()
  for (const { group_id, credit: text, steps, agents, returns, scored, ...row } of rows) {
    const credit = specs.get(text) ?? (JSON.parse(text) as CreditSpec)
    specs.set(text, credit)
    const transitions = steps.map((step, i) => ({ step, agent: agents[i]!, return: returns[i]![0] }))
    const member = { ...row, credit, scored: Boolean(scored), transitions }
    const group = found.get(group_id)
    if (group) group.push(member)
    else found.set(group_id, [member])
  }
  return found
}

/** Groups of these rollouts. */
export async function groupsOf(deps: Deps, rollouts: readonly RolloutKey[]): Promise<string[]> {
  const rows = await select<{ group_id: string }>(
    deps,
    `SELECT DISTINCT group_id FROM rollouts
     WHERE tenant = '' AND rollout_id IN ${textList(rollouts.map(({ rollout_id }) => rollout_id))} AND group_id != ''`,
  )
  return rows.map(({ group_id }) => group_id)
}

/** Last credit of each group that ever had one. */
export async function lastVersions(deps: Deps, groups: readonly string[]): Promise<Map<string, number>> {
  if (groups.length === 0) return new Map()
  const rows = await select<{ group_id: string; version: number }>(
    deps,
    `SELECT group_id, max(credit_version) AS version FROM credits WHERE tenant = '' AND group_id IN ${textList(groups)} GROUP BY group_id`,
  )
  return new Map(rows.map(({ group_id, version }) => [group_id, version]))
}

/** Groups with a row that their last credit left out: of a rollout that is new, or revised, or whose credit was not finished. */
export async function groupsLeftOut(deps: Deps): Promise<string[]> {
  const rows = await select<{ group_id: string }>(
    deps,
    `SELECT DISTINCT group_id FROM (SELECT group_id, credit_version FROM transitions WHERE group_id != '') AS live
     LEFT JOIN (SELECT group_id, max(credit_version) AS version FROM credits GROUP BY group_id) AS c USING group_id
     WHERE credit_version IS NULL OR credit_version != version
     SETTINGS max_threads = 0`,
  )
  return rows.map(({ group_id }) => group_id)
}

const select = <T>({ client, run }: Deps, query: string): Promise<T[]> =>
  run(async () => {
    const clickhouse_settings = { ...LONG_STATEMENT, ...SMALL_STATEMENT }
    return (await client.query({ query, format: 'JSONEachRow', clickhouse_settings })).json<T>()
  })

/** All rollouts that the group is to have are over, and each is scored or known to tell nothing. */
export function isComplete(members: readonly Member[]): boolean {
  const size = Math.max(...members.map(({ group_size }) => group_size))
  const decided = new Set(members.filter(isDecided).map(({ rollout_id }) => rollout_id))
  return size > 0 && decided.size >= size
}

const isDecided = ({ mode, status, scored, credit }: Member): boolean =>
  scored || mode === 'val' || statusRule(status, credit) !== 'as_scored'

/** Enough to compare, although more may have been meant to come. */
export function isSettled(members: readonly Member[]): boolean {
  const scored = new Set(members.filter((m) => m.transitions.some((t) => t.return !== null)).map(({ rollout_id }) => rollout_id))
  return scored.size >= members.at(-1)!.credit.min_group
}

/** More of it will come as long as the task is given. */
export const isEndless = (members: readonly Member[]): boolean => members.at(-1)!.credit.group_by === 'task'
