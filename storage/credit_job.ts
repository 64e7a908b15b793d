// Stage B of credit, beside the storage: when a group is complete, the advantages of its live
// transitions. Advantages are written by one lightweight UPDATE and count once `credits` names
// their version, which is written last.

import { randomUUID } from 'node:crypto'

import { groupAdvantages, type GroupCredit } from '../credit/group.ts'
import { statusRule } from '../credit/statuses.ts'
import { steadyNow } from '../data/clock.ts'
import type { CreditSpec, Rollout, Status } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { openCreditRows, putAssigned, putCompared, writeCredit, type CreditRows, type Writer } from './credit_rows.ts'
import { groupId } from './groups.ts'
import type { Lease } from './lease.ts'
import { LONG_STATEMENT, textList } from './literals.ts'
import type { Credited, CreditedStep } from './recredit.ts'
import { putRolloutRow, ROLLOUT_COLUMNS } from './rollout_rows.ts'
import { openRows, putFloat64, putString, putUInt32, putUInt64, written, type Rows } from './row_binary.ts'
import { dropStagingTables } from './staging.ts'

export interface CreditJob {
  /** Groups that may now be complete. Those that are not are looked at again after `settleTimeout`. */
  committed(rollouts: readonly Rollout[]): void
  /** Has the groups found that an earlier run left without credit. */
  resume(): void
  /**
   * Stores these rollouts' new returns and credits their groups with them: those that are complete or were credited before, and, with
   * `settled`, those that will get no more. The others wait, as those of new rollouts do.
   */
  again(rollouts: readonly Credited[], options?: { settled?: boolean }): Promise<void>
  /** Waits for what is being computed; what is waited for is found again by `resume`. */
  close(): Promise<void>
}

export interface CreditJobOptions extends Writer {
  readonly settleTimeout: number
  /** That no other process writes credit. */
  readonly lease: Lease
}

interface Member {
  readonly group_id: string
  readonly group_size: number
  readonly rollout_id: string
  readonly attempt_id: string
  readonly revision: number
  readonly mode: Rollout['mode']
  readonly status: Status
  readonly credit: CreditSpec
  readonly scored: boolean
  readonly transitions: readonly { readonly step: number; readonly agent: string; readonly return: number | null }[]
  /** Those transitions where they are to be stored with it; undefined where they stay as they are. */
  readonly assigned?: readonly CreditedStep[]
}

/** How often groups that wait are looked at, and how many together. */
const SWEEP_MS = 500
const TOGETHER = 2_000
/**
 * A group is credited whole each time. One that never ends, as a task in production, is left alone for so many times as long as that
 * took, once it is large: else the work for a rollout would grow with the number of those before.
 */
const REST = 20
const LARGE = 200

export function creditJob({ settleTimeout, lease, ...writer }: CreditJobOptions): CreditJob {
  const { client, run, insert } = writer
  /** When each waiting group settles, ms since the epoch; 0: to be looked at now. */
  const waiting = new Map<string, number>()
  /** Until when each large group is left alone. */
  const resting = new Map<string, number>()
  let working = Promise.resolve()
  let queued = false
  let resuming = false
  let sweep: NodeJS.Timeout | undefined
  let closed = false

  function committed(rollouts: readonly Rollout[]): void {
    for (const rollout of rollouts) if (rollout.credit && groupId(rollout)) waiting.set(groupId(rollout), 0)
    if (waiting.size > 0) work()
  }

  function resume(): void {
    resuming = true
    work()
  }

  // A row that its group's last credit left out: of a rollout that is new, or revised, or whose credit was not finished.
  async function findLeftOut(): Promise<void> {
    await run(() => dropStagingTables(client))
    const groups = await select<{ group_id: string }>(`
      SELECT DISTINCT group_id FROM (SELECT group_id, credit_version FROM transitions WHERE group_id != '') AS live
      LEFT JOIN (SELECT group_id, max(credit_version) AS version FROM credits GROUP BY group_id) AS c USING group_id
      WHERE credit_version IS NULL OR credit_version != version`)
    for (const { group_id } of groups) waiting.set(group_id, 0)
    resuming = false
  }

  function work(): void {
    sweep ??= setInterval(work, SWEEP_MS).unref()
    if (queued) return
    queued = true
    working = working
      .then(() => {
        queued = false
        return creditDue()
      })
      .catch(() => {}) // what is wrong was told; the groups go on waiting
  }

  async function creditDue(): Promise<void> {
    if (closed) return
    if (waiting.size === 0 && !resuming) {
      clearInterval(sweep)
      sweep = undefined
      return
    }
    await lease.hold()
    if (resuming) await findLeftOut()
    const now = steadyNow()
    for (const [group, until] of resting) if (until <= now) resting.delete(group)
    const due = [...waiting].filter(([group, at]) => at <= now && !resting.has(group)).slice(0, TOGETHER)
    if (closed || due.length === 0) return
    const groups = await membersOf(due.map(([group]) => group))
    const isReady = ([group, members]: readonly [string, Member[]]) =>
      isComplete(members) || ((isEndless(members) || waiting.get(group)! > 0) && isSettled(members))
    const ready = [...groups].filter(isReady)
    if (ready.length > 0) await credit(ready, await lastVersions(ready.map(([group]) => group)))
    rest(ready, steadyNow() - now)
    for (const [group, at] of due) {
      if (waiting.get(group) !== at) continue // committed to meanwhile
      if (at === 0 && !ready.some(([id]) => id === group)) waiting.set(group, now + settleTimeout)
      else waiting.delete(group)
    }
  }

  function rest(groups: readonly (readonly [string, Member[]])[], took: number): void {
    const all = groups.reduce((sum, [, members]) => sum + members.length, 0)
    for (const [group, members] of groups) {
      const ms = (REST * took * members.length) / all
      if (ms > SWEEP_MS && members.length >= LARGE && isEndless(members)) resting.set(group, steadyNow() + ms)
    }
  }

  async function again(rollouts: readonly Credited[], { settled = false } = {}): Promise<void> {
    const groups = [...new Set(rollouts.map(({ row }) => row.group_id))]
    const next = working.then(async () => {
      for (let i = 0; i < groups.length; i += TOGETHER) {
        const some = new Set(groups.slice(i, i + TOGETHER))
        await creditAgain(
          rollouts.filter(({ row }) => some.has(row.group_id)),
          settled,
        )
      }
    })
    working = next.catch(() => {})
    await next
  }

  async function creditAgain(rollouts: readonly Credited[], settled: boolean): Promise<void> {
    await lease.hold()
    const changed = new Map(rollouts.map((one) => [routeKey(one.row.rollout_id, one.row.attempt_id), one]))
    const ids = [...new Set(rollouts.map(({ row }) => row.group_id))].filter(Boolean)
    const [groups, versions] = await Promise.all([membersOf(ids, changed), lastVersions(ids)])
    const isReady = (group: string, members: readonly Member[]) =>
      isComplete(members) || ((settled || versions.has(group)) && isSettled(members))
    const ready = [...groups].filter(([group, members]) => isReady(group, members))
    const credited = new Set(ready.map(([group]) => group))
    await credit(
      ready,
      versions,
      rollouts.filter(({ row }) => !credited.has(row.group_id)),
      rollouts,
    )
    for (const group of groups.keys()) if (!credited.has(group)) waiting.set(group, 0)
    if (waiting.size > 0) work()
  }

  /** Attempts by group, in the order in which they began. What changed counts as it is to be stored. */
  async function membersOf(ids: readonly string[], changed: ReadonlyMap<string, Credited> = new Map()): Promise<Map<string, Member[]>> {
    const groups = new Map<string, Member[]>()
    if (ids.length === 0) return groups
    const list = textList(ids)
    const rows = await select<Omit<Member, 'credit' | 'transitions' | 'scored'> & MemberRow>(
      `SELECT group_id, group_size, rollout_id, attempt_id, revision, mode, status, credit, outcome IS NOT NULL AS scored, steps, agents, returns
       FROM (SELECT * FROM rollouts FINAL) AS r
       LEFT JOIN (
         SELECT rollout_id, attempt_id, revision, groupArray(step) AS steps, groupArray(agent) AS agents, groupArray(tuple(return)) AS returns
         FROM (SELECT * FROM transition_rows WHERE group_id IN ${list} ORDER BY step)
         GROUP BY rollout_id, attempt_id, revision
       ) AS t USING (rollout_id, attempt_id, revision)
       WHERE group_id IN ${list} AND credit != ''
       ORDER BY started_at, attempt_id`,
    )
    for (const { credit, steps, agents, returns, scored, ...row } of rows) {
      const transitions = steps.map((step, i) => ({ step, agent: agents[i]!, return: returns[i]![0] }))
      const stored: Member = { ...row, credit: JSON.parse(credit) as CreditSpec, scored: Boolean(scored), transitions }
      const now = changed.get(routeKey(row.rollout_id, row.attempt_id))
      const member = now ? { ...stored, credit: now.credit, scored: now.row.outcome !== null, ...both(now.steps) } : stored
      const group = groups.get(row.group_id)
      if (group) group.push(member)
      else groups.set(row.group_id, [member])
    }
    return groups
  }

  /** @param others rollouts that are stored without being compared @param rewritten rollouts whose own row is new */
  async function credit(
    groups: readonly (readonly [string, Member[]])[],
    versions: ReadonlyMap<string, number>,
    others: readonly Credited[] = [],
    rewritten: readonly Credited[] = [],
  ): Promise<void> {
    const now = steadyNow()
    const steps = openCreditRows()
    const credits = openRows()
    for (const [group, members] of groups) {
      const version = (versions.get(group) ?? 0) + 1
      const spec = members.at(-1)!.credit
      const result = groupAdvantages(
        members.map((member) => ({ ...member, excluded: member.mode === 'val' })),
        spec,
      )
      putAdvantages(steps, members, result, version)
      putCredit(credits, group, version, spec, result, now)
    }
    for (const { row, steps: own } of others) for (const t of own) putAssigned(steps, row, t, t.advantage, null)
    const revisions = await writeCredit(writer, steps)
    const rollouts = openRows()
    for (const { row } of rewritten) {
      const revision = revisions.get(routeKey(row.rollout_id, row.attempt_id)) ?? row.revision
      putRolloutRow(rollouts, { ...row, revision }, now)
    }
    if (rollouts.count > 0) await insert('rollouts', ROLLOUT_COLUMNS, written(rollouts), randomUUID())
    if (credits.count > 0) await insert('credits', CREDIT_COLUMNS, written(credits), randomUUID())
  }

  async function lastVersions(groups: readonly string[]): Promise<Map<string, number>> {
    if (groups.length === 0) return new Map()
    const rows = await select<{ group_id: string; version: number }>(
      `SELECT group_id, max(credit_version) AS version FROM credits WHERE tenant = '' AND group_id IN ${textList(groups)} GROUP BY group_id`,
    )
    return new Map(rows.map(({ group_id, version }) => [group_id, version]))
  }

  const select = <T>(query: string): Promise<T[]> =>
    run(async () => (await client.query({ query, format: 'JSONEachRow', clickhouse_settings: LONG_STATEMENT })).json<T>())

  async function close(): Promise<void> {
    closed = true
    clearInterval(sweep)
    await working
    await lease.release()
  }

  return { committed, resume, again, close }
}

interface MemberRow {
  readonly credit: string
  readonly scored: 0 | 1
  readonly steps: readonly number[]
  readonly agents: readonly string[]
  /** NULLs are left out of a groupArray, hence tuples. */
  readonly returns: readonly (readonly [number | null])[]
}

/** All rollouts that the group is to have are over, and each is scored or known to tell nothing. */
function isComplete(members: readonly Member[]): boolean {
  const size = Math.max(...members.map(({ group_size }) => group_size))
  const decided = new Set(members.filter(isDecided).map(({ rollout_id }) => rollout_id))
  return size > 0 && decided.size >= size
}

/** More of it will come as long as the task is given. */
const isEndless = (members: readonly Member[]): boolean => members.at(-1)!.credit.group_by === 'task'

const isDecided = ({ mode, status, scored, credit }: Member): boolean =>
  scored || mode === 'val' || statusRule(status, credit) !== 'as_scored'

/** Enough to compare, although more may have been meant to come. */
function isSettled(members: readonly Member[]): boolean {
  const scored = new Set(members.filter((m) => m.transitions.some((t) => t.return !== null)).map(({ rollout_id }) => rollout_id))
  return scored.size >= members.at(-1)!.credit.min_group
}

const both = (steps: readonly CreditedStep[]) => ({ transitions: steps, assigned: steps })

function putAdvantages(rows: CreditRows, members: readonly Member[], { advantages }: GroupCredit, version: number): void {
  for (const [m, member] of members.entries()) {
    for (const [t, { step }] of member.transitions.entries()) {
      const advantage = advantages[m]![t]!
      if (member.assigned) putAssigned(rows, member, member.assigned[t]!, advantage, version)
      else putCompared(rows, member, step, advantage, version)
    }
  }
}

const CREDIT_COLUMNS = 'tenant, group_id, credit_version, method, members, baseline, effective_size, created_at'

function putCredit(
  rows: Rows,
  group: string,
  version: number,
  { method }: CreditSpec,
  { baseline, members, effective_size }: GroupCredit,
  now: number,
): void {
  putString(rows, '')
  putString(rows, group)
  putUInt32(rows, version)
  putString(rows, method)
  putUInt32(rows, members)
  putString(rows, baseline)
  putFloat64(rows, effective_size)
  putUInt64(rows, now)
  rows.count++
}
