// Stage B of credit, beside the storage: when a group is complete, the advantages of its live
// transitions. Advantages are written by one lightweight UPDATE and count once `credits` names
// their version, which is written last.

import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'

import { steadyNow } from '../data/clock.ts'
import type { Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import type { Credited } from './credit_again.ts'
import { CREDIT_COLUMNS, openCredit, putGroup, putRollout, putUncompared, type Credit } from './credit_block.ts'
import { revisionsAnew, writeCredit, type Writer } from './credit_rows.ts'
import { groupsLeftOut, isComplete, isEndless, isSettled, lastVersions, memberOf, membersOf, type Member } from './group_members.ts'
import type { Lease } from './lease.ts'
import { ROLLOUT_COLUMNS, type RolloutRow } from './rollout_rows.ts'
import { written } from './row_binary.ts'
import { dropStagingTables } from './staging.ts'
import type { KnownRollout, RolloutKey } from './storage.ts'
import { byGroup, groupsOf, outlinesOf, rolloutsOfGroups } from './stored_rollouts.ts'

/** What is kept of a rollout that is live now; `group_id` is '' where it is not to be compared. */
export type Committed = Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision' | 'group_id'>

export interface CreditJob {
  /** Groups that may now be complete. Those that are not are looked at again after `settleTimeout`. */
  committed(rollouts: readonly Committed[]): void
  /** Has the groups found that an earlier run left without credit. */
  resume(): void
  /**
   * Stores what becomes of these rollouts, and credits their groups with it: those that are complete or were credited before, and, with
   * `settled`, those that will get no more. The others wait, as those of new rollouts do.
   */
  again(rollouts: readonly KnownRollout[], become: Become, options?: AgainOptions): Promise<void>
  /** Waits for what is being computed; what is waited for is found again by `resume`. */
  close(): Promise<void>
}

/** What becomes of a stored rollout, by routeKey: null where it stays as it is, 'outline' where that cannot be told without it. */
export type Become = (row: RolloutRow, key: string, outline?: Buffer) => Credited | 'outline' | null

interface AgainOptions {
  readonly settled?: boolean
  /** Those of the rollouts that something becomes of, where that is not known yet. They are read meanwhile. */
  readonly ready?: Promise<readonly RolloutKey[]>
  /** What must be stored before this credit counts. */
  readonly after?: Promise<void>
}

export interface CreditJobOptions extends Writer {
  readonly settleTimeout: number
  /** That no other process writes credit. */
  readonly lease: Lease
}

/** A group that may be complete. */
interface Wait {
  /** When it settles, ms since the epoch; 0: to be looked at now. */
  readonly at: number
  /** The last of it that was committed. */
  readonly last?: Committed
}

/** How often groups that wait are looked at, and how many together. */
const SWEEP_MS = 500
const TOGETHER = 2_000
/** Thousands of rollouts take half a second. */
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

  function committed(rollouts: readonly Committed[]): void {
    for (const rollout of rollouts) if (rollout.group_id) waiting.set(rollout.group_id, { at: 0, last: rollout })
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

  async function again(rollouts: readonly KnownRollout[], become: Become, options: AgainOptions = {}): Promise<void> {
    const next = working.then(() => creditAnew(rollouts, become, options))
    working = next.catch(() => {})
    await next
  }

  async function creditAnew(rollouts: readonly KnownRollout[], become: Become, { settled, ready, after }: AgainOptions): Promise<void> {
    await lease.hold()
    const { groups, alone } = await groupsOf(writer, rollouts)
    const stored = rolloutsOfGroups(writer, groups, alone)
    const versions = await lastVersions(writer, groups)
    const revisions = new Map<string, number>()
    const wanted = new Set(((await ready) ?? rollouts).map(keyOf))
    if (wanted.size === 0) return
    // Whoever waits to hear that it arrived comes first.
    await setImmediate()
    const credit = openCredit(rollouts.length)
    /** @returns those of a group that cannot be credited without their outlines: then nothing was done */
    const creditGroup = (group: string, own: readonly RolloutRow[], outlines?: ReadonlyMap<string, Buffer>): readonly RolloutRow[] => {
      const becoming = own.map((row) => {
        const key = keyOf(row)
        return wanted.has(key) ? become(row, key, outlines?.get(key)) : null
      })
      if (!outlines && becoming.includes('outline')) return own.filter((_, i) => becoming[i] === 'outline')
      const members = own.map((row, i) => {
        const credited = becoming[i]!
        if (credited === null || credited === 'outline') return memberOf(row)
        putRollout(credit, credited.row, revisions)
        return memberOf(credited.row, credited.credit, { outcome: credited.row.outcome, steps: credited.steps })
      })
      const isReady = group !== '' && (isComplete(members) || ((settled || versions.has(group)) && isSettled(members)))
      if (isReady) putGroup(credit, group, members, versions)
      else putUncompared(credit, members)
      if (group !== '' && !isReady) waiting.set(group, { at: 0 })
      return []
    }

    const left: (readonly [string, readonly RolloutRow[]])[] = []
    const lacking: RolloutRow[] = []
    const turn = turns()
    for await (const rows of stored) {
      const numbers = await revisionsAnew(writer, () => [...rows].filter(({ returns }) => returns.length > 0))
      for (const [key, number] of numbers) revisions.set(key, number)
      for (const [group, own] of byGroup(rows)) {
        await turn()
        if (!own.some((row) => wanted.has(keyOf(row)))) continue
        const some = creditGroup(group, own)
        if (some.length > 0) left.push([group, own])
        lacking.push(...some)
      }
    }
    if (left.length > 0) {
      const outlines = await outlinesOf(writer, lacking)
      for (const [group, own] of left) {
        await turn()
        creditGroup(group, own, outlines)
      }
    }
    await store(credit, revisions, after)
    if (waiting.size > 0) work()
  }

  /** @param after see AgainOptions */
  async function store({ steps, rollouts, credits }: Credit, revisions: ReadonlyMap<string, number>, after?: Promise<void>): Promise<void> {
    await Promise.all([writeCredit(writer, steps, revisions), after])
    const commit = () => rollouts.count > 0 && insert('rollouts', ROLLOUT_COLUMNS, written(rollouts), randomUUID())
    const count = () => credits.count > 0 && insert('credits', CREDIT_COLUMNS, written(credits), randomUUID())
    // Readers wait for its credit. A late reward whose rollout's row is lost with this process is found again, since nothing covers it.
    const [first, second] = after && revisions.size === 0 ? [count, commit] : [commit, count]
    await first()
    await second()
  }

  async function close(): Promise<void> {
    closed = true
    clearInterval(sweep)
    await working
    await lease.release()
  }

  return { committed, resume, again, close }
}

const holds = (members: readonly Member[] = [], last: Committed | undefined): boolean =>
  members.some((member) => last && keyOf(member) === keyOf(last) && member.revision >= last.revision)

const keyOf = ({ rollout_id, attempt_id }: RolloutKey): string => routeKey(rollout_id, attempt_id)

/** Requests are answered in between. */
function turns(): () => Promise<void> {
  let next = performance.now() + TURN_MS
  return async () => {
    if (performance.now() < next) return
    await setImmediate()
    next = performance.now() + TURN_MS
  }
}
