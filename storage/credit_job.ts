// Stage B of credit, beside the storage: when a group is complete, the advantages of its live
// transitions. Advantages are written by one lightweight UPDATE and count once `credits` names
// their version, which is written last.

import { randomUUID } from 'node:crypto'

import type { AssignedStep } from '../credit/assign.ts'
import { groupAdvantages, type GroupCredit } from '../credit/group.ts'
import { steadyNow } from '../data/clock.ts'
import type { CreditSpec, Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { openCreditRows, putCredit, writeCredit, type Writer } from './credit_rows.ts'
import {
  groupsLeftOut,
  inGroups,
  isComplete,
  isEndless,
  isSettled,
  lastVersions,
  lastVersionsAround,
  memberOf,
  membersOf,
  type Member,
} from './group_members.ts'
import { groupId } from './groups.ts'
import type { Lease } from './lease.ts'
import type { Become, Credited } from './recredit.ts'
import type { RolloutKey } from './reward_targets.ts'
import { putRolloutRow, ROLLOUT_COLUMNS, type RolloutRow } from './rollout_rows.ts'
import { openRows, putFloat64, putString, putUInt32, putUInt64, written, type Rows } from './row_binary.ts'
import { dropStagingTables } from './staging.ts'
import { rolloutsWithGroups } from './stored_rollouts.ts'

export interface CreditJob {
  /** Groups that may now be complete. Those that are not are looked at again after `settleTimeout`. */
  committed(rollouts: readonly Rollout[]): void
  /** Has the groups found that an earlier run left without credit. */
  resume(): void
  /**
   * Stores what becomes of these rollouts, and credits their groups with it: those that are complete or were credited before, and, with
   * `settled`, those that will get no more. The others wait, as those of new rollouts do.
   */
  again(rollouts: readonly RolloutKey[], become: Become, options?: AgainOptions): Promise<void>
  /** Waits for what is being computed; what is waited for is found again by `resume`. */
  close(): Promise<void>
}

interface AgainOptions {
  readonly settled?: boolean
  /** What must be stored before this credit counts. */
  readonly after?: Promise<void>
}

export interface CreditJobOptions extends Writer {
  readonly settleTimeout: number
  /** That no other process writes credit. */
  readonly lease: Lease
}

interface Compared extends Member {
  /** Its transitions where they are to be stored with it; undefined where they stay as they are. */
  readonly assigned?: readonly AssignedStep[]
}
type Group = readonly [id: string, members: readonly Compared[]]

/** A group that may be complete. */
interface Wait {
  /** When it settles, ms since the epoch; 0: to be looked at now. */
  readonly at: number
  /** The last of it that was committed. */
  readonly last?: Rollout
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
  const waiting = new Map<string, Wait>()
  /** Until when each large group is left alone. */
  const resting = new Map<string, number>()
  let working = Promise.resolve()
  let queued = false
  let resuming = false
  let sweep: NodeJS.Timeout | undefined
  let closed = false

  function committed(rollouts: readonly Rollout[]): void {
    for (const rollout of rollouts) if (rollout.credit && groupId(rollout)) waiting.set(groupId(rollout), { at: 0, last: rollout })
    if (waiting.size > 0) work()
  }

  function resume(): void {
    resuming = true
    work()
  }

  async function findLeftOut(): Promise<void> {
    await run(() => dropStagingTables(client))
    for (const group of await groupsLeftOut(writer)) waiting.set(group, { at: 0 })
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
    const due = [...waiting].filter(([group, { at }]) => at <= now && !resting.has(group)).slice(0, TOGETHER)
    if (closed || due.length === 0) return
    const ids = due.map(([group]) => group)
    const [groups, versions] = await Promise.all([membersOf(writer, ids), lastVersions(writer, ids)])
    const settles = new Set(due.flatMap(([group, { at }]) => (at > 0 ? [group] : [])))
    const isReady = ([group, members]: readonly [string, Member[]]) =>
      isComplete(members) || ((isEndless(members) || settles.has(group)) && isSettled(members))
    const ready = [...groups].filter(isReady)
    if (ready.length > 0) await credit(ready, versions)
    rest(ready, steadyNow() - now)
    const credited = new Set(ready.map(([group]) => group))
    for (const [group, wait] of due) {
      const latest = waiting.get(group)!
      if (latest !== wait && !holds(groups.get(group), latest.last)) continue // committed after they were read
      if (wait.at === 0 && !credited.has(group)) waiting.set(group, { at: now + settleTimeout })
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

  async function again(rollouts: readonly RolloutKey[], become: Become, options: AgainOptions = {}): Promise<void> {
    const next = working.then(() => creditAnew(rollouts, become, options))
    working = next.catch(() => {})
    await next
  }

  async function creditAnew(rollouts: readonly RolloutKey[], become: Become, { settled, after }: AgainOptions): Promise<void> {
    await lease.hold()
    const [rows, versions] = await Promise.all([rolloutsWithGroups(writer, rollouts), lastVersionsAround(writer, rollouts)])
    const wanted = new Set(rollouts.map(keyOf))
    const changed = new Map<string, Credited>()
    const concerned = new Set<string>()
    for (const row of rows) {
      if (!wanted.has(keyOf(row))) continue
      if (row.group_id !== '') concerned.add(row.group_id)
      const credited = become(row)
      if (credited) changed.set(keyOf(row), credited)
    }
    const groups = inGroups(rows, concerned, (row) => asChanged(row, changed.get(keyOf(row))))
    const isReady = (group: string, members: readonly Member[]) =>
      isComplete(members) || ((settled || versions.has(group)) && isSettled(members))
    const ready = [...groups].filter(([group, members]) => isReady(group, members))
    const compared = new Set(ready.map(([group]) => group))
    for (const group of groups.keys()) if (!compared.has(group)) waiting.set(group, { at: 0 })
    await credit(ready, versions, [...changed.values()], after)
    if (waiting.size > 0) work()
  }

  /** @param anew rollouts that are stored with new returns, also where their groups are not compared yet @param after see AgainOptions */
  async function credit(
    groups: readonly Group[],
    versions: ReadonlyMap<string, number>,
    anew: readonly Credited[] = [],
    after?: Promise<void>,
  ): Promise<void> {
    const now = steadyNow()
    const steps = openCreditRows(anew.length > 0)
    const credits = openRows()
    for (const [group, members] of groups) {
      const version = (versions.get(group) ?? 0) + 1
      const spec = members.at(-1)!.credit
      const result = groupAdvantages(
        members.map((member) => ({ ...member, excluded: member.mode === 'val' })),
        spec,
      )
      for (const [i, member] of members.entries()) putCredit(steps, member, result.advantages[i]!, version, member.assigned)
      putCreditsRow(credits, group, version, spec, result, now)
    }
    const compared = new Set(groups.map(([group]) => group))
    for (const { row, steps: own } of anew) {
      if (compared.has(row.group_id)) continue
      const advantages = own.map(({ advantage }) => advantage)
      putCredit(steps, row, advantages, null, own)
    }
    const [revisions] = await Promise.all([writeCredit(writer, steps), after])
    const rollouts = openRows()
    for (const { row } of anew) putRolloutRow(rollouts, { ...row, revision: revisions.get(keyOf(row)) ?? row.revision }, now)
    if (rollouts.count > 0) await insert('rollouts', ROLLOUT_COLUMNS, written(rollouts), randomUUID())
    if (credits.count > 0) await insert('credits', CREDIT_COLUMNS, written(credits), randomUUID())
  }

  async function close(): Promise<void> {
    closed = true
    clearInterval(sweep)
    await working
    await lease.release()
  }

  return { committed, resume, again, close }
}

const holds = (members: readonly Member[] = [], last: Rollout | undefined): boolean =>
  members.some((member) => last && keyOf(member) === keyOf(last) && member.revision >= last.revision)

/** What changed counts as it is to be stored. */
function asChanged(row: RolloutRow, now: Credited | undefined): Compared {
  return now ? { ...memberOf(now.row), credit: now.credit, assigned: now.steps } : memberOf(row)
}

const keyOf = ({ rollout_id, attempt_id }: RolloutKey): string => routeKey(rollout_id, attempt_id)

const CREDIT_COLUMNS = 'tenant, group_id, credit_version, method, members, baseline, effective_size, created_at'

function putCreditsRow(
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
