// Rollouts into their tables. What ClickHouse refuses for good is left out, and stands in `rejects` with its reason: one bad call must
// hold up neither its rollout nor the others.

import { createHash } from 'node:crypto'

import { steadyNow } from '../data/clock.ts'
import { giveWay } from '../data/give_way.ts'
import type { Reject, Reward, Rollout, Transition } from '../data/rollout.ts'
import { outline, type Outlined } from './outline.ts'
import { reasonOf, REFUSED, storeApart, type Refused } from './refused.ts'
import { Unassemblable } from './revisions.ts'
import {
  KEY_COLUMNS,
  MEMBER_COLUMNS,
  OUTLINE_COLUMNS,
  putKeys,
  putMembers,
  putOutline,
  putReject,
  putReward,
  putRewardTarget,
  putRolloutRow,
  rolloutRow,
  REJECT_COLUMNS,
  REWARD_COLUMNS,
  REWARD_TARGET_COLUMNS,
  ROLLOUT_COLUMNS,
} from './rollout_rows.ts'
import { openRows, written, type Rows } from './row_binary.ts'
import { putTransitions, TRANSITION_COLUMNS } from './transition_rows.ts'

/** Larger blocks only cost memory. */
const BLOCK_BYTES = 16_000_000
/** A larger one is not kept to be filled again. */
const KEEP_BYTES = 8 << 20
/** A revision that is never live. */
const NEVER = 0

interface RolloutWriter {
  /** @returns the rollouts as they were written: where a call was refused, it is a reject. */
  writeRevision(rollouts: readonly Rollout[], isNew: (reward: Reward) => boolean, abort?: AbortSignal): Promise<readonly Rollout[]>
  /** @returns those that were refused: they do not become live. */
  commit(rollouts: readonly Rollout[]): Promise<readonly Rollout[]>
}

interface Options {
  insert(table: string, columns: string, bytes: Buffer, token: string, abort?: AbortSignal): Promise<void>
  count(name: string, n: number): void
}

/** Rows of one table. */
interface Table<T> {
  readonly name: string
  readonly columns: string
  /** What of a rollout is stored together or not at all. */
  of(rollout: Rollout): readonly T[]
  put(rows: Rows, rollout: Rollout, one: T, at: number): void
  /** The call or span that it is about. */
  about?(one: T): Partial<Reject>
}

interface Row<T> {
  readonly rollout: Rollout
  readonly one: T
  /** Its place among those of its rollout. */
  readonly n: number
}

interface Rejected {
  readonly rollout: Rollout
  readonly reject: Reject
}

const TRANSITIONS: Table<Rollout> = {
  ...{ name: 'transition_rows', columns: TRANSITION_COLUMNS },
  of: (rollout) => (rollout.transitions.length > 0 ? [rollout] : []),
  put: (rows, rollout, _, at) => putTransitions(rows, rollout, at),
}
const REJECTS: Table<Reject> = {
  ...{ name: 'rejects', columns: REJECT_COLUMNS, of: ({ rejects }) => rejects, put: putReject },
  about: ({ span_id, policy }) => ({ span_id, policy }),
}
const REWARDS: Table<Reward> = {
  ...{ name: 'rewards', columns: REWARD_COLUMNS, of: ({ rewards }) => rewards, put: putReward },
  about: ({ span_id }) => ({ span_id }),
}
const REWARD_TARGETS: Table<Reward> = { ...REWARDS, name: 'reward_targets', columns: REWARD_TARGET_COLUMNS, put: putRewardTarget }
const MEMBERS: Table<Rollout> = {
  ...{ name: 'rollout_members', columns: MEMBER_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putMembers(rows, rollout, at),
}
const KEYS: Table<Rollout> = {
  ...{ name: 'rollout_keys', columns: KEY_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putKeys(rows, rollout, at),
}
const OUTLINES: Table<Rollout> = {
  ...{ name: 'outlines', columns: OUTLINE_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putOutline(rows, rollout, outlineOf(rollout).outline, at),
}
const ROLLOUTS: Table<Rollout> = {
  ...{ name: 'rollouts', columns: ROLLOUT_COLUMNS, of: (rollout) => [rollout] },
  put: (rows, rollout, _, at) => putRolloutRow(rows, rolloutRow(rollout, outlineOf(rollout)), at),
}

/** Both of these tables ask for it. */
const outlined = new WeakMap<Rollout, Outlined>()
function outlineOf(rollout: Rollout): Outlined {
  const known = outlined.get(rollout) ?? outline(rollout)
  outlined.set(rollout, known)
  return known
}

export function rolloutWriter({ insert, count }: Options): RolloutWriter {
  /** A block of each table, to be filled again: V8 is slow to let go of memory outside of its heap. */
  const spare = new Map<string, Rows>()

  async function writeRevision(
    rollouts: readonly Rollout[],
    isNew: (reward: Reward) => boolean,
    abort?: AbortSignal,
  ): Promise<readonly Rollout[]> {
    // A block's stamp: not the time of the attempt, so that a retry past midnight of a month's last day is the same block.
    const at = Math.max(0, ...rollouts.map(({ covered_until }) => covered_until))
    const newRewards = { ...REWARDS, of: ({ rewards }: Rollout) => rewards.filter(isNew) }
    const [{ as, rejected }, ...others] = await Promise.all([
      writeTransitions(rollouts, at, abort),
      ...[write(REJECTS, rollouts, at, abort), write(newRewards, rollouts, at, abort), write(REWARD_TARGETS, rollouts, at, abort)],
    ])
    await tell([...rejected, ...others.flat()], at, abort)
    return as
  }

  async function commit(rollouts: readonly Rollout[]): Promise<readonly Rollout[]> {
    const at = steadyNow()
    // What its row makes live is there before.
    const parts = await Promise.all([write(MEMBERS, rollouts, at), write(KEYS, rollouts, at), write(OUTLINES, rollouts, at)])
    await tell(parts.flat(), at)
    const rejected = await write(ROLLOUTS, rollouts, at)
    await tell(rejected, at)
    return rejected.map(({ rollout }) => rollout)
  }

  /** Transitions of a rollout name each other by their places, so the whole of it is written anew, without those that were refused. */
  async function writeTransitions(rollouts: readonly Rollout[], at: number, abort?: AbortSignal) {
    const as = [...rollouts]
    const rejected: Rejected[] = []
    for (const { row, error } of await store(TRANSITIONS, rollouts, at, abort)) {
      const { rollout } = row
      const tried = (some: readonly Transition[]): Rollout => ({ ...rollout, revision: NEVER, transitions: some.map(alone) })
      const refused = await storeApart(rollout.transitions, error, (some) =>
        insertRows(TRANSITIONS, rowsOf(TRANSITIONS, tried(some)), at, abort),
      )
      const rejects = refused.map((one) => rejectOf(one, one.row))
      const rest = without(rollout, new Set(refused.map(({ row }) => row)), rejects)
      await insertRows(TRANSITIONS, rowsOf(TRANSITIONS, rest), at, abort)
      as[as.indexOf(rollout)] = rest
      for (const reject of rejects) rejected.push({ rollout, reject })
    }
    return { as, rejected }
  }

  async function write<T>(table: Table<T>, rollouts: readonly Rollout[], at: number, abort?: AbortSignal): Promise<Rejected[]> {
    const refused = await store(table, rollouts, at, abort)
    return refused.map((one) => ({ rollout: one.row.rollout, reject: rejectOf(one, table.about?.(one.row.one)) }))
  }

  async function tell(rejected: readonly Rejected[], at: number, abort?: AbortSignal): Promise<void> {
    if (rejected.length === 0) return
    const block = openRows()
    for (const [n, { rollout, reject }] of rejected.entries()) put(block, REJECTS, { rollout, one: reject, n }, at)
    await insert(REJECTS.name, REJECTS.columns, written(block), tokenOfRefusal(rejected), abort)
    count('leyden_refused_rows', rejected.length)
  }

  /** Stores rollouts in blocks of whole ones, and returns what was refused. The same revisions are the same blocks, however often they are sent. */
  async function store<T>(table: Table<T>, rollouts: readonly Rollout[], at: number, abort?: AbortSignal): Promise<Refused<Row<T>>[]> {
    const refused: Refused<Row<T>>[] = []
    const block = spare.get(table.name) ?? openRows()
    spare.delete(table.name)
    let rows: Row<T>[] = []
    for (const [i, rollout] of rollouts.entries()) {
      for (const row of rowsOf(table, rollout)) rows.push(put(block, table, row, at))
      await giveWay()
      if (block.length < BLOCK_BYTES && i < rollouts.length - 1) continue
      if (block.count > 0) {
        await send(table, block, rows, abort).catch(async (error: unknown) => {
          refused.push(...(await storeApart(rows, error, (some) => insertRows(table, some, at, abort))))
        })
      }
      block.length = block.count = 0
      rows = []
    }
    if (block.bytes.length <= KEEP_BYTES) spare.set(table.name, block)
    return refused
  }

  async function insertRows<T>(table: Table<T>, rows: readonly Row<T>[], at: number, abort?: AbortSignal): Promise<void> {
    const block = openRows()
    for (const row of rows) put(block, table, row, at)
    await send(table, block, rows, abort)
  }

  const send = <T>({ name, columns }: Table<T>, block: Rows, rows: readonly Row<T>[], abort?: AbortSignal): Promise<void> =>
    insert(name, columns, written(block), tokenOf(rows), abort)

  return { writeRevision, commit }
}

const rowsOf = <T>(table: Table<T>, rollout: Rollout): Row<T>[] => table.of(rollout).map((one, n) => ({ rollout, one, n }))

function put<T>(block: Rows, table: Table<T>, row: Row<T>, at: number): Row<T> {
  try {
    table.put(block, row.rollout, row.one, at)
  } catch (error) {
    throw new Unassemblable(`cannot be written to ${table.name}: ${(error as Error).message}`, { cause: error })
  }
  return row
}

function tokenOf(rows: readonly Row<unknown>[]): string {
  const hash = createHash('sha1')
  for (const { rollout, n } of rows) {
    const { tenant, rollout_id, attempt_id, revision } = rollout
    hash.update(JSON.stringify([tenant, rollout_id, attempt_id, revision, n]))
  }
  return hash.digest('hex')
}

/** Not by their places among those of a rollout, which its own rejects have as well: to ClickHouse one of both would be the other sent again. */
function tokenOfRefusal(rejected: readonly Rejected[]): string {
  const named = rejected.map(({ rollout: { tenant, rollout_id, attempt_id, revision }, reject }) => [
    ...[tenant, rollout_id, attempt_id, revision],
    reject,
  ])
  return createHash('sha1').update(JSON.stringify(named)).digest('hex')
}

const rejectOf = (refused: Refused<unknown>, { span_id = '', policy = '' }: Partial<Reject> = {}): Reject => ({
  ...{ span_id, policy, reason: REFUSED, detail: reasonOf(refused) },
})

const alone = (transition: Transition): Transition => ({ ...transition, parent_step: -1 })

/** A prompt that extended one of those that are gone begins a chain of its own. */
function without(rollout: Rollout, gone: ReadonlySet<Transition>, rejects: readonly Reject[]): Rollout {
  const left = rollout.transitions.filter((transition) => !gone.has(transition))
  const places = new Map(left.map(({ step }, i) => [step, i]))
  const transitions = left.map((transition, step) => ({ ...transition, step, parent_step: places.get(transition.parent_step) ?? -1 }))
  return { ...rollout, transitions, rejects: [...rollout.rejects, ...rejects] }
}
