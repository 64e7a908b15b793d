// Stage B of credit, beside the storage: when a group is complete, the advantages of its live
// transitions. Advantages are written by one lightweight UPDATE and count once `credits` names
// their version, which is written last.

import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'

import { groupAdvantages, type GroupCredit } from '../credit/group.ts'
import { steadyNow } from '../data/clock.ts'
import type { CreditSpec, Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { openCreditRows, putCredit, revisionsAnew, writeCredit, type Assigned, type CreditRows, type Writer } from './credit_rows.ts'
import {
  groupsLeftOut,
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
import type { Become } from './recredit.ts'
import type { RolloutKey } from './reward_targets.ts'
import { putRolloutRow, ROLLOUT_COLUMNS, type RolloutRow } from './rollout_rows.ts'
import { openRows, putFloat64, putString, putUInt32, putUInt64, written, type Rows } from './row_binary.ts'
import { dropStagingTables } from './staging.ts'
import { byGroup, rolloutsWithGroups } from './stored_rollouts.ts'

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
  readonly assigned?: Assigned
}

/** What is to be stored together. */
interface Credit {
  readonly steps: CreditRows
  /** Rows of `rollouts`: those with new returns. */
  readonly rollouts: Rows
  /** Rows of `credits`. */
  readonly credits: Rows
  readonly now: number
}

const openCredit = (): Credit => ({ steps: openCreditRows(), rollouts: openRows(), credits: openRows(), now: steadyNow() })

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
/** Thousands of rollouts take a second: requests are answered in between. */
const TURN_MS = 20
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
    if (ready.length > 0) {
      const revisions = await revisionsAnew(writer, () => ready.flatMap(([, members]) => members))
      const credit = openCredit()
      for (const [group, members] of ready) putGroup(credit, group, members, versions)
      await store(credit, revisions)
    }
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
    const revisions = await revisionsAnew(writer, () => [...rows].filter(({ returns }) => returns.length > 0))
    const wanted = new Set(rollouts.map(keyOf))
    const credit = openCredit()
    const compare = (row: RolloutRow): Compared => {
      const credited = wanted.has(keyOf(row)) ? become(row) : null
      if (!credited) return memberOf(row)
      putRollout(credit, credited.row, revisions)
      const { outcome } = credited.row
      return { ...memberOf(credited.row), credit: credited.credit, assigned: { outcome, steps: credited.steps } }
    }
    let next = performance.now() + TURN_MS
    for (const [group, own] of byGroup(rows)) {
      if (performance.now() > next) {
        await setImmediate()
        next = performance.now() + TURN_MS
      }
      if (!own.some((row) => wanted.has(keyOf(row)))) continue
      const members = own.map(compare)
      const isReady = group !== '' && (isComplete(members) || ((settled || versions.has(group)) && isSettled(members)))
      if (isReady) putGroup(credit, group, members, versions)
      else putUncompared(credit, members)
      if (group !== '' && !isReady) waiting.set(group, { at: 0 })
    }
    await store(credit, revisions, after)
    if (waiting.size > 0) work()
  }

  /** @param after see AgainOptions */
  async function store({ steps, rollouts, credits }: Credit, revisions: ReadonlyMap<string, number>, after?: Promise<void>): Promise<void> {
    await Promise.all([writeCredit(writer, steps, revisions), after])
    const commit = () => rollouts.count > 0 && insert('rollouts', ROLLOUT_COLUMNS, written(rollouts), randomUUID())
    const count = () => credits.count > 0 && insert('credits', CREDIT_COLUMNS, written(credits), randomUUID())
    // A late reward whose rollout's row is lost with this process is found again, since nothing covers it.
    if (after && revisions.size === 0) {
      await Promise.all([commit(), count()])
    } else {
      await commit()
      await count()
    }
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

const keyOf = ({ rollout_id, attempt_id }: RolloutKey): string => routeKey(rollout_id, attempt_id)

const CREDIT_COLUMNS = 'tenant, group_id, credit_version, method, members, baseline, effective_size, created_at'

function putGroup(
  { steps, credits, now }: Credit,
  group: string,
  members: readonly Compared[],
  versions: ReadonlyMap<string, number>,
): void {
  const version = (versions.get(group) ?? 0) + 1
  const spec = members.at(-1)!.credit
  const result = groupAdvantages(
    members.map((member) => ({ ...member, excluded: member.mode === 'val' })),
    spec,
  )
  for (const [i, member] of members.entries()) putCredit(steps, member, result.advantages[i]!, version, member.assigned)
  putCreditsRow(credits, group, version, spec, result, now)
}

/** Those with new returns are stored with these, also where their group is not compared yet. */
function putUncompared({ steps }: Credit, members: readonly Compared[]): void {
  for (const member of members) {
    if (!member.assigned) continue
    const advantages = member.assigned.steps.map(({ advantage }) => advantage)
    putCredit(steps, member, advantages, null, member.assigned)
  }
}

function putRollout({ rollouts, now }: Credit, row: RolloutRow, revisions: ReadonlyMap<string, number>): void {
  putRolloutRow(rollouts, { ...row, revision: revisions.get(keyOf(row)) ?? row.revision }, now)
}

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
