// Stage B of credit, beside the storage: when a group is complete, the advantages of its live
// transitions. Advantages are written by one lightweight UPDATE and count once `credits` names
// their version, which is written last.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

import { groupAdvantages, type GroupCredit } from '../credit/group.ts'
import { statusRule } from '../credit/statuses.ts'
import type { CreditSpec, Rollout, Status } from '../data/rollout.ts'
import { groupId } from './groups.ts'
import { dropStagingTables, withStaging } from './staging.ts'
import { openRows, putFloat64, putNullable, putString, putUInt32, putUInt64, written, type Rows } from './row_binary.ts'

export interface CreditJob {
  /** Groups that may now be complete. Those that are not are looked at again after `settleTimeout`. */
  committed(rollouts: readonly Rollout[]): void
  /** Finds the groups that an earlier run left without credit. */
  resume(): Promise<void>
  /** Credits these groups now, those at least that were credited before or are complete. */
  again(groups: readonly string[]): Promise<void>
  /** Waits for what is being computed; what is waited for is found again by `resume`. */
  close(): Promise<void>
}

export interface CreditJobOptions {
  readonly client: ClickHouseClient
  run<T>(attempt: () => Promise<T>): Promise<T>
  insert(table: string, columns: string, rows: Buffer, token: string): Promise<void>
  readonly settleTimeout: number
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
}

/** How often groups that wait are looked at, and how many together. */
const SWEEP_MS = 500
const TOGETHER = 500

export function creditJob({ client, run, insert, settleTimeout }: CreditJobOptions): CreditJob {
  /** When each waiting group settles, ms since the epoch; 0: to be looked at now. */
  const waiting = new Map<string, number>()
  let working = Promise.resolve()
  let queued = false
  let sweep: NodeJS.Timeout | undefined
  let closed = false

  function committed(rollouts: readonly Rollout[]): void {
    for (const rollout of rollouts) if (rollout.credit && groupId(rollout)) waiting.set(groupId(rollout), 0)
    if (waiting.size > 0) work()
  }

  // A rollout may have been committed while its group was computed, hence the minute: twice is harmless.
  async function resume(): Promise<void> {
    await run(() => dropStagingTables(client))
    const groups = await run(() =>
      select<{ group_id: string }>(`
        SELECT group_id FROM rollouts LEFT JOIN (SELECT group_id, max(created_at) AS credited_at FROM credits GROUP BY group_id) AS c USING group_id
        WHERE group_id != '' AND credit != ''
        GROUP BY group_id HAVING max(committed_at) >= max(credited_at) - INTERVAL 1 MINUTE`),
    )
    for (const { group_id } of groups) waiting.set(group_id, 0)
    if (groups.length > 0) work()
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
      .catch(() => {}) // run() has told what is wrong; the groups go on waiting
  }

  async function creditDue(): Promise<void> {
    const now = Date.now()
    const due = [...waiting].filter(([, at]) => at <= now).slice(0, TOGETHER)
    if (closed || due.length === 0) return
    const groups = await run(() => membersOf(due.map(([group]) => group)))
    const ready = [...groups].filter(([group, members]) => isComplete(members) || (waiting.get(group)! > 0 && isSettled(members)))
    if (ready.length > 0) await credit(ready, now)
    for (const [group, at] of due) {
      if (waiting.get(group) !== at) continue // committed to meanwhile
      if (at === 0 && !ready.some(([id]) => id === group)) waiting.set(group, now + settleTimeout)
      else waiting.delete(group)
    }
    if (waiting.size === 0) {
      clearInterval(sweep)
      sweep = undefined
    }
  }

  async function again(ids: readonly string[]): Promise<void> {
    const next = working.then(async () => {
      for (let i = 0; i < ids.length; i += TOGETHER) {
        const groups = await run(() => membersOf(ids.slice(i, i + TOGETHER)))
        const ready = [...groups].filter(([, members]) => isComplete(members) || isSettled(members))
        if (ready.length > 0) await credit(ready, Date.now())
      }
    })
    working = next.catch(() => {})
    await next
  }

  /** Attempts by group, in the order in which they began. */
  async function membersOf(ids: readonly string[]): Promise<Map<string, Member[]>> {
    const rows = await select<Omit<Member, 'credit' | 'transitions' | 'scored'> & MemberRow>(
      `SELECT group_id, group_size, rollout_id, attempt_id, revision, mode, status, credit, outcome IS NOT NULL AS scored, steps, agents, returns
       FROM (SELECT * FROM rollouts FINAL) AS r
       LEFT JOIN (
         SELECT rollout_id, attempt_id, revision, groupArray(step) AS steps, groupArray(agent) AS agents, groupArray(tuple(return)) AS returns
         FROM (SELECT * FROM transition_rows WHERE group_id IN {groups:Array(String)} ORDER BY step)
         GROUP BY rollout_id, attempt_id, revision
       ) AS t USING (rollout_id, attempt_id, revision)
       WHERE group_id IN {groups:Array(String)} AND credit != ''
       ORDER BY started_at, attempt_id`,
      { groups: ids },
    )
    const groups = new Map<string, Member[]>()
    for (const { credit, steps, agents, returns, scored, ...row } of rows) {
      const transitions = steps.map((step, i) => ({ step, agent: agents[i]!, return: returns[i]![0] }))
      const member = { ...row, credit: JSON.parse(credit) as CreditSpec, scored: Boolean(scored), transitions }
      const group = groups.get(row.group_id)
      if (group) group.push(member)
      else groups.set(row.group_id, [member])
    }
    return groups
  }

  async function credit(groups: readonly (readonly [string, Member[]])[], now: number): Promise<void> {
    const versions = await run(() => lastVersions(groups.map(([group]) => group)))
    const advantages = openRows()
    const credits = openRows()
    for (const [group, members] of groups) {
      const version = (versions.get(group) ?? 0) + 1
      const spec = members.at(-1)!.credit
      const result = groupAdvantages(
        members.map((member) => ({ ...member, excluded: member.mode === 'val' })),
        spec,
      )
      putAdvantages(advantages, members, result, version)
      putCredit(credits, group, version, spec, result, now)
    }
    if (advantages.count > 0) await update(advantages)
    await insert('credits', CREDIT_COLUMNS, written(credits), randomUUID())
  }

  async function update(advantages: Rows): Promise<void> {
    const command = (query: string) => run(() => client.command({ query }))
    const columns = 'key String, rollout_id String, advantage Nullable(Float64), credit_version UInt32'
    await withStaging({ command }, columns, async (staging) => {
      await insert(staging, 'key, rollout_id, advantage, credit_version', written(advantages), randomUUID())
      await command(
        `UPDATE transition_rows
         SET advantage = joinGet(${staging}, 'advantage', ${KEY}), credit_version = joinGet(${staging}, 'credit_version', ${KEY})
         WHERE tenant = '' AND rollout_id IN (SELECT rollout_id FROM ${staging}) AND ${KEY} IN (SELECT key FROM ${staging})`,
      )
    })
  }

  async function lastVersions(groups: readonly string[]): Promise<Map<string, number>> {
    const rows = await select<{ group_id: string; version: number }>(
      "SELECT group_id, max(credit_version) AS version FROM credits WHERE tenant = '' AND group_id IN {groups:Array(String)} GROUP BY group_id",
      { groups },
    )
    return new Map(rows.map(({ group_id, version }) => [group_id, version]))
  }

  async function select<T>(query: string, query_params: Record<string, unknown> = {}): Promise<T[]> {
    return (await client.query({ query, query_params, format: 'JSONEachRow' })).json<T>()
  }

  async function close(): Promise<void> {
    closed = true
    clearInterval(sweep)
    await working
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

const isDecided = ({ mode, status, scored, credit }: Member): boolean =>
  scored || mode === 'val' || statusRule(status, credit) !== 'as_scored'

/** Enough to compare, although more may have been meant to come. */
function isSettled(members: readonly Member[]): boolean {
  const scored = new Set(members.filter((m) => m.transitions.some((t) => t.return !== null)).map(({ rollout_id }) => rollout_id))
  return scored.size >= members.at(-1)!.credit.min_group
}

const KEY = "concat(rollout_id, '\\0', attempt_id, '\\0', toString(revision), '\\0', toString(step))"

function putAdvantages(rows: Rows, members: readonly Member[], { advantages }: GroupCredit, version: number): void {
  for (const [m, { rollout_id, attempt_id, revision, transitions }] of members.entries()) {
    for (const [t, { step }] of transitions.entries()) {
      putString(rows, [rollout_id, attempt_id, revision, step].join('\0'))
      putString(rows, rollout_id)
      putNullable(rows, advantages[m]![t]!, putFloat64)
      putUInt32(rows, version)
      rows.count++
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
