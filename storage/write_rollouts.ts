// Rollouts into their tables. What ClickHouse refuses for good is left out, and stands in `rejects` with its reason: one bad call must
// hold up neither its rollout nor the others.

import { createHash } from 'node:crypto'

import { steadyNow } from '../data/clock.ts'
import { giveWay } from '../data/give_way.ts'
import type { Reject, Reward, Rollout, Transition } from '../data/rollout.ts'
import type { Writer } from './credit_rows.ts'
import { revisionStored } from './is_stored.ts'
import { reasonOf, REFUSED, storeApart, type Refused } from './refused.ts'
import { Unassemblable } from './revisions.ts'
import {
  KEYS,
  MEMBERS,
  OUTLINES,
  REJECTS,
  REWARD_TARGETS,
  REWARDS,
  ROLLOUTS,
  TRANSITIONS,
  type Named,
  type Revision,
  type Row as TableRow,
  type Table,
} from './rollout_tables.ts'
import { putReject } from './rollout_rows.ts'
import { openRows, written, type Rows } from './row_binary.ts'

/** Larger blocks only cost memory. */
const BLOCK_BYTES = 16_000_000
/** A larger one is not kept to be filled again. */
const KEEP_BYTES = 8 << 20
/** A revision that is never live. */
const NEVER = 0

interface RolloutWriter {
  /** @returns the rollouts as they were written: where a call was refused, it is a reject. */
  writeRevision(rollouts: readonly Rollout[], abort?: AbortSignal): Promise<readonly Rollout[]>
  openCommit(): Commit
}

/** Rollouts that become live together. What was added is held as rows, not as rollouts. */
interface Commit {
  add(rollouts: readonly Rollout[], isNew: (reward: Reward) => boolean): Promise<void>
  /** @returns those that were refused: they do not become live. */
  done(): Promise<readonly Revision[]>
}

interface Options extends Pick<Writer, 'insert'> {
  count(name: string, n: number): void
}

interface Row<R extends Revision> extends TableRow {
  readonly of: R
  /** Its place among those of its rollout. */
  readonly n: number
  /** Where it stands in its block. */
  readonly start: number
  readonly end: number
}

/** Rows of one table, of rollouts or of what is left of them. */
interface Block<R extends Revision> {
  readonly bytes: Rows
  readonly rows: Row<R>[]
}

interface Rejected {
  readonly of: Revision
  readonly reject: Reject
}

/** What a rollout's row makes live is there before it. */
const BEFORE: readonly Named[] = [REJECTS, REWARDS, REWARD_TARGETS, MEMBERS, KEYS, OUTLINES]

export function rolloutWriter({ insert, count }: Options): RolloutWriter {
  /** A buffer for each table, to be filled again: V8 is slow to let go of memory outside of its heap. */
  const spare = new Map<string, Rows>()

  /** Transitions of a rollout name each other by their places, so the whole of it is written anew, without those that were refused. */
  async function writeRevision(rollouts: readonly Rollout[], abort?: AbortSignal): Promise<readonly Rollout[]> {
    // A block's stamp: not the time of the attempt, so that a retry past midnight of a month's last day is the same block.
    const at = Math.max(0, ...rollouts.map(({ covered_until }) => covered_until))
    const as = [...rollouts]
    const insertOne = (rollout: Rollout) => {
      const block = emptyBlock<Rollout>()
      fill(block, TRANSITIONS, rollout, rollout, at)
      return send(TRANSITIONS, written(block.bytes), block.rows, abort)
    }
    for (const { row, error } of await storeAll(TRANSITIONS, rollouts, at, abort)) {
      const rollout = row.of
      const tried = (some: readonly Transition[]): Rollout => ({ ...rollout, revision: NEVER, transitions: some.map(alone) })
      const refused = await storeApart(rollout.transitions, error, (some) => insertOne(tried(some)))
      const rejects = refused.map((one) => rejectOf(one, one.row))
      const rest = without(rollout, new Set(refused.map(({ row }) => row)), rejects)
      await insertOne(rest)
      as[as.indexOf(rollout)] = rest
      count('leyden_refused_rows', rejects.length)
    }
    return as
  }

  function openCommit(): Commit {
    const at = steadyNow()
    const blocks = new Map([...BEFORE, ROLLOUTS].map((table) => [table.name, openBlock<Revision>(table)]))

    async function add(rollouts: readonly Rollout[], isNew: (reward: Reward) => boolean): Promise<void> {
      const newRewards = { ...REWARDS, of: ({ rewards }: Rollout) => rewards.filter(isNew) }
      for (const rollout of rollouts) {
        const { tenant, rollout_id, attempt_id, revision } = rollout
        const of = { tenant, rollout_id, attempt_id, revision }
        const put = <T>(table: Table<T>) => fill(blocks.get(table.name)!, table, rollout, of, at)
        put(REJECTS)
        put(newRewards)
        put(REWARD_TARGETS)
        put(MEMBERS)
        put(KEYS)
        put(OUTLINES)
        put(ROLLOUTS)
        await giveWay()
      }
    }

    async function done(): Promise<readonly Revision[]> {
      const refused = await Promise.all(BEFORE.map(storeBlock))
      await tell(refused.flat(), at)
      const rejected = await storeBlock(ROLLOUTS)
      await tell(rejected, at)
      return rejected.map(({ of }) => of)
    }

    async function storeBlock(table: Named): Promise<Rejected[]> {
      const block = blocks.get(table.name)!
      const refused = await store(table, block)
      keep(table, block)
      return refused.map(asRejected)
    }

    return { add, done }
  }

  async function tell(rejected: readonly Rejected[], at: number): Promise<void> {
    if (rejected.length === 0) return
    const rows = openRows()
    for (const { of, reject } of rejected) putReject(rows, of, reject, at)
    const [{ of, reject }] = rejected as [Rejected]
    await insert(REJECTS.name, REJECTS.columns, written(rows), tokenOfRefusal(rejected), revisionStored('rejects', of, reject))
    count('leyden_refused_rows', rejected.length)
  }

  /** Stores rollouts in blocks of whole ones, and returns what was refused. The same revisions are the same blocks, however often they are sent. */
  async function storeAll<T>(
    table: Table<T>,
    rollouts: readonly Rollout[],
    at: number,
    abort?: AbortSignal,
  ): Promise<Refused<Row<Rollout>>[]> {
    const refused: Refused<Row<Rollout>>[] = []
    let block: Block<Rollout> | undefined
    for (const [i, rollout] of rollouts.entries()) {
      block ??= openBlock(table)
      fill(block, table, rollout, rollout, at)
      await giveWay()
      if (block.bytes.length < BLOCK_BYTES && i < rollouts.length - 1) continue
      refused.push(...(await store(table, block, abort)))
      keep(table, block)
      block = undefined
    }
    return refused
  }

  async function store<R extends Revision>(table: Named, { bytes, rows }: Block<R>, abort?: AbortSignal): Promise<Refused<Row<R>>[]> {
    if (bytes.count === 0) return []
    const all = written(bytes)
    try {
      await send(table, all, rows, abort)
      return []
    } catch (error) {
      const bytesOf = ({ start, end }: Row<R>) => all.subarray(start, end)
      return storeApart(rows, error, (some) => send(table, Buffer.concat(some.map(bytesOf)), some, abort))
    }
  }

  const send = (table: Named, bytes: Buffer, rows: readonly Row<Revision>[], abort?: AbortSignal): Promise<void> =>
    insert(table.name, table.columns, bytes, tokenOf(rows), table.isStored?.(rows), abort)

  function openBlock<R extends Revision>({ name }: Named): Block<R> {
    const bytes = spare.get(name)
    spare.delete(name)
    return bytes ? { bytes, rows: [] } : emptyBlock()
  }

  function keep({ name }: Named, { bytes }: Block<Revision>): void {
    if (bytes.bytes.length > KEEP_BYTES) return
    bytes.length = bytes.count = 0
    spare.set(name, bytes)
  }

  return { writeRevision, openCommit }
}

const emptyBlock = <R extends Revision>(): Block<R> => ({ bytes: openRows(), rows: [] })

/** @param of what is kept of the rollout */
function fill<T, R extends Revision>({ bytes, rows }: Block<R>, table: Table<T>, rollout: Rollout, of: R, at: number): void {
  for (const [n, one] of table.of(rollout).entries()) {
    const start = bytes.length
    try {
      table.put(bytes, rollout, one, at)
    } catch (error) {
      throw new Unassemblable(`cannot be written to ${table.name}: ${(error as Error).message}`, { cause: error })
    }
    rows.push({ of, n, about: table.about?.(one), start, end: bytes.length })
  }
}

function tokenOf(rows: readonly Row<Revision>[]): string {
  const hash = createHash('sha1')
  for (const { of, n } of rows) {
    const { tenant, rollout_id, attempt_id, revision } = of
    hash.update(JSON.stringify([tenant, rollout_id, attempt_id, revision, n]))
  }
  return hash.digest('hex')
}

/** Not by their places among those of a rollout, which its own rejects have as well: to ClickHouse one of both would be the other sent again. */
function tokenOfRefusal(rejected: readonly Rejected[]): string {
  const named = rejected.map(({ of: { tenant, rollout_id, attempt_id, revision }, reject }) => [
    ...[tenant, rollout_id, attempt_id, revision],
    reject,
  ])
  return createHash('sha1').update(JSON.stringify(named)).digest('hex')
}

const asRejected = (refused: Refused<Row<Revision>>): Rejected => ({ of: refused.row.of, reject: rejectOf(refused, refused.row.about) })

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
