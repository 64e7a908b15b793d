// Groups as they are stored, to be compared: their attempts, what each transition of these returned, and which credit was the last.

import { statusRule } from '../credit/statuses.ts'
import type { CreditSpec, Rollout, Status } from '../data/rollout.ts'
import type { Assigned, Writer } from './credit_rows.ts'
import { LONG_STATEMENT, SMALL_STATEMENT, textList } from './literals.ts'
import type { RolloutRow } from './rollout_rows.ts'
import { byGroup, rolloutsOfGroups } from './stored_rollouts.ts'

export interface Member extends Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision' | 'group_size'> {
  readonly status: Status
  /** Never trained on. */
  readonly excluded: boolean
  readonly credit: CreditSpec
  readonly scored: boolean
  readonly transitions: readonly { readonly agent: string; readonly return: number | null }[]
  /** Credit of its transitions where that is to be stored with it; undefined where it stays as it is. */
  readonly assigned: Assigned | undefined
}

type Deps = Pick<Writer, 'client' | 'run'>

/** Thousands of them were credited in the same way. */
const specs = new Map<string, CreditSpec>()
const MAX_SPECS = 1_000

export function specOf(credit: string): CreditSpec {
  let spec = specs.get(credit)
  if (spec) return spec
  if (specs.size === MAX_SPECS) specs.clear()
  specs.set(credit, (spec = JSON.parse(credit) as CreditSpec))
  return spec
}

export function memberOf(row: RolloutRow, credit = specOf(row.credit), assigned?: Assigned): Member {
  const { rollout_id, attempt_id, revision, mode, group_size, status, outcome, agents, returns } = row
  const transitions = returns.map((value, step) => ({ agent: agents[step]!, return: value }))
  return {
    rollout_id,
    attempt_id,
    revision,
    group_size,
    status,
    excluded: mode === 'val',
    credit,
    scored: outcome !== null,
    transitions,
    assigned,
  }
}

/** Attempts by group, in the order in which they began. */
export async function membersOf(deps: Deps, groups: readonly string[]): Promise<Map<string, Member[]>> {
  if (groups.length === 0) return new Map()
  const found = new Map<string, Member[]>()
  for await (const some of rolloutsOfGroups(deps, groups)) {
    for (const [group, rows] of byGroup(some)) {
      const members = rows.map((row) => memberOf(row))
      found.set(group, members)
    }
  }
  return found
}

/** Last credit of each group that ever had one. */
export async function lastVersions(deps: Deps, groups: readonly string[]): Promise<Map<string, number>> {
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
  let size = 0
  const decided = new Set<string>()
  for (const member of members) {
    size = Math.max(size, member.group_size)
    if (isDecided(member)) decided.add(member.rollout_id)
  }
  return size > 0 && decided.size >= size
}

const isDecided = ({ excluded, status, scored, credit }: Member): boolean =>
  scored || excluded || statusRule(status, credit) !== 'as_scored'

/** Enough to compare, although more may have been meant to come. */
export function isSettled(members: readonly Member[]): boolean {
  const scored = new Set(members.filter((m) => m.transitions.some((t) => t.return !== null)).map(({ rollout_id }) => rollout_id))
  return scored.size >= members.at(-1)!.credit.min_group
}

/** More of it will come as long as the task is given. */
export const isEndless = (members: readonly Member[]): boolean => members.at(-1)!.credit.group_by === 'task'
