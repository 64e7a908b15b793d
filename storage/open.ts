// The storage: one ClickHouse, wired up as the Storage that components use.

import { randomUUID } from 'node:crypto'

import { resumeClock, steadyNow } from '../data/clock.ts'
import { lanes } from '../data/lanes.ts'
import type { Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { availability } from './availability.ts'
import { bookkeeping, versionOf } from './bookkeeping.ts'
import { connect, type ConnectionOptions } from './connection.ts'
import { coveredByOld } from './expired.ts'
import { creditJob, type Committed } from './credit_job.ts'
import { updateProbe, type Writer } from './credit_rows.ts'
import { groupId } from './groups.ts'
import { spanInserter } from './insert_spans.ts'
import type { IsStored } from './is_stored.ts'
import { applySchema } from './migrate.ts'
import { lease } from './lease.ts'
import { creditLate } from './late_credit.ts'
import { quarantine, type InsertRows } from './quarantine.ts'
import { readRawItems, sizesOf } from './read_items.ts'
import { MEMBER_COLUMNS, putMembers, REJECT_COLUMNS } from './rollout_rows.ts'
import { openRows, written } from './row_binary.ts'
import { SPAN_COLUMNS } from './span_block.ts'
import type { Commit, Member, RolloutKey, Storage } from './storage.ts'
import { sureInserts } from './sure_insert.ts'
import { recredit, type Recredit, type Recredited } from './recredit.ts'
import { findTargets } from './reward_targets.ts'
import { rolloutWriter } from './write_rollouts.ts'

export interface StorageOptions extends ConnectionOptions {
  /** How long raw spans are kept, in milliseconds; 0: for ever. */
  readonly ttl: number
  /** How long a group that is not complete waits for more, in milliseconds. */
  readonly settle_timeout: number
  /** Is told what keeps storage from working; null when nothing does. */
  readonly report: (problem: string | null) => void
  /** Counts what operators should see. */
  readonly count: (name: string, n: number) => void
}

export const DEFAULTS: StorageOptions = {
  url: 'embedded',
  database: 'default',
  username: 'default',
  password: '',
  ttl: 30 * 24 * 3_600_000,
  settle_timeout: 30_000,
  report: () => {},
  count: () => {},
}

/** Clients wait for their spans to be stored: of the three writes that an embedded ClickHouse does at once, one is always left to these. */
const OTHERS_AT_ONCE = 2

/** Far above what is closed together. */
const MAX_UNCOMMITTED = 2_000
/** Rollouts whose last revision number is remembered: a write may be on its way for minutes, not for so many rollouts. */
const MAX_USED = 100_000

export interface OpenStorage extends Storage {
  /** For other processes that are to use the same ClickHouse. */
  readonly connection: ConnectionOptions
  /** Stored rollouts are credited again, and their groups with them. */
  recredit(request: Recredit): Promise<Recredited>
  close(): Promise<void>
}

/**
 * Opens the storage and brings its schema up to date. Rejects when an embedded ClickHouse cannot be
 * started or a server refuses; a server that is away is waited for, and until then calls reject as Unavailable.
 */
export async function openStorage(options: Partial<StorageOptions> = {}): Promise<OpenStorage> {
  const { ttl, settle_timeout, report, count, ...connectionOptions } = { ...DEFAULTS, ...options }
  const { client, insert: sendInsert, makeDatabase, close: disconnect } = await connect(connectionOptions)
  const {
    run,
    start,
    close: giveUp,
  } = availability({
    report,
    async contact() {
      await makeDatabase()
      await applySchema(client, { ttl })
      resumeClock(await lastArrival())
    },
  })

  const sureInsert = sureInserts(client)
  type Into = readonly [table: string, columns: string, format: string]
  async function send(into: Into, rows: readonly Buffer[], token: string, isStored: IsStored, abort?: AbortSignal): Promise<void> {
    const [table, columns, format] = into
    const query = `INSERT INTO ${table} (${columns}) FORMAT ${format}`
    const insert = (token: string) => sendInsert(query, rows, token, abort)
    await run(() => sureInsert({ table, token, isStored, insert }), abort)
  }

  const others = lanes(OTHERS_AT_ONCE)
  const insertParts = (table: string, columns: string, parts: readonly Buffer[], token: string, isStored: IsStored, abort?: AbortSignal) =>
    others(() => send([table, columns, 'RowBinary'], parts, token, isStored, abort))
  const insert: Writer['insert'] = (table, columns, rows, token, isStored, abort) =>
    insertParts(table, columns, [rows], token, isStored, abort)

  const insertSpans: InsertRows = (parts, token, isStored) => send(['spans', SPAN_COLUMNS, 'Native'], parts, token, isStored)
  const insertRejects: InsertRows = (parts, token, isStored) => insertParts('rejects', REJECT_COLUMNS, parts, token, isStored)
  const spans = spanInserter(insertSpans, quarantine(insertSpans, insertRejects, count))
  const { members, tracesOf, lastRevisions, closedBySize, uncovered, storedRewards, lastArrival } = bookkeeping(client)
  const tables = rolloutWriter({ insert, count })
  const writer = { client, run, insert, nextRevisions, canUpdate: updateProbe(client) }
  const creditLease = lease({ client, run, report, name: 'credit', what: 'credit is written' })
  const credit = creditJob({ ...writer, settleTimeout: settle_timeout, lease: creditLease })
  const lateCredit = { ...writer, storedRewards, again: credit.again }

  /** What processors made of rollouts: how they are to be credited is known only from then on. */
  const uncommitted = new Map<string, Rollout>()

  function remember(rollouts: readonly Rollout[]): void {
    for (const rollout of rollouts) uncommitted.set(keyOf(rollout), rollout)
    // Some are never committed, since another branch of the pipeline refused them.
    for (const key of uncommitted.keys()) {
      if (uncommitted.size <= MAX_UNCOMMITTED) break
      uncommitted.delete(key)
    }
  }

  /** Numbers that were given out, as long as it is not known what became of them. */
  const used = new Map<string, number>()

  function use(rollouts: readonly Pick<Rollout, 'rollout_id' | 'attempt_id' | 'revision'>[]): void {
    for (const rollout of rollouts) used.set(keyOf(rollout), Math.max(rollout.revision, used.get(keyOf(rollout)) ?? 0))
    for (const key of used.keys()) {
      if (used.size <= MAX_USED) break
      used.delete(key)
    }
  }

  async function lastUsedRevisions(rollouts: Parameters<Storage['lastRevisions']>[0]): Promise<Map<string, number>> {
    const last = new Map(await run(() => lastRevisions(rollouts)))
    for (const { rollout_id, attempt_id } of rollouts) {
      const key = routeKey(rollout_id, attempt_id)
      const here = used.get(key)
      if (here !== undefined) last.set(key, Math.max(here, last.get(key) ?? 0))
    }
    return last
  }

  async function nextRevisions(rollouts: Parameters<Writer['nextRevisions']>[0]): Promise<Map<string, number>> {
    const last = await lastUsedRevisions(rollouts)
    const next = rollouts.map((rollout) => ({ ...rollout, revision: (last.get(keyOf(rollout)) ?? 0) + 1 }))
    use(next)
    return new Map(next.map((rollout) => [keyOf(rollout), rollout.revision]))
  }

  async function writeRevision(rollouts: readonly Rollout[], abort?: AbortSignal): Promise<void> {
    use(rollouts)
    remember(await tables.writeRevision(rollouts, abort))
  }

  /** The ledger holds a reward once, however often its rollout is revised. */
  async function knownRewards(rollouts: readonly Rollout[]): Promise<Set<string>> {
    const again = rollouts.filter(({ revision }) => revision > 1).flatMap(({ rewards }) => rewards.map(({ reward_id }) => reward_id))
    return new Set(await run(() => storedRewards(again)))
  }

  function openCommit(): Commit {
    const rows = tables.openCommit()
    const added: Committed[] = []

    /** `assembled`: as they were before any processor saw them, which is all that the connector has. */
    async function add(assembled: readonly Rollout[]): Promise<void> {
      const processed = assembled.map((rollout) => {
        const written = uncommitted.get(keyOf(rollout))
        return written?.revision === rollout.revision ? written : rollout
      })
      const known = await knownRewards(processed)
      await rows.add(processed, (reward) => !known.has(versionOf(reward)))
      for (const rollout of processed) {
        uncommitted.delete(keyOf(rollout))
        const { rollout_id, attempt_id, revision } = rollout
        added.push({ rollout_id, attempt_id, revision, group_id: rollout.credit ? groupId(rollout) : '' })
      }
    }

    async function done(): Promise<readonly RolloutKey[]> {
      const refused = await rows.done()
      const lost = new Set(refused.map(keyOf))
      for (const rollout of added) if (used.get(keyOf(rollout)) === rollout.revision) used.delete(keyOf(rollout))
      credit.committed(added.filter((rollout) => !lost.has(keyOf(rollout))))
      return refused
    }

    return { add, done }
  }

  async function commit(assembled: readonly Rollout[]): Promise<readonly RolloutKey[]> {
    const { add, done } = openCommit()
    await add(assembled)
    return done()
  }

  async function join(members: readonly Member[]): Promise<void> {
    const rows = openRows()
    const now = steadyNow()
    for (const { trace_id, ...rollout } of members) putMembers(rows, { tenant: '', trace_ids: [trace_id], ...rollout }, now)
    if (rows.count > 0) await insert('rollout_members', MEMBER_COLUMNS, written(rows), randomUUID())
  }

  async function close(): Promise<void> {
    await spans.close()
    await credit.close()
    giveUp()
    await disconnect()
  }

  await start().catch(async (error: Error) => {
    await disconnect()
    throw error
  })
  return {
    client,
    connection: connectionOptions,
    insertSpans: spans.insert,
    holdSpans: spans.hold,
    readItems: (traceIds, wanted) => run(() => readRawItems(client, traceIds, wanted)),
    sizesOf: (traceIds) => run(() => sizesOf(client, traceIds)),
    closedBySize: (rollouts) => run(() => closedBySize(rollouts)),
    members: (traceIds) => run(() => members(traceIds)),
    tracesOf: (rollouts) => run(() => tracesOf(rollouts)),
    findTargets: (keys) => run(() => findTargets(client, keys)),
    join,
    coveredByOld: (rollouts) => run(() => coveredByOld(client, rollouts, ttl)),
    creditLate: (late, arrived) => creditLate(lateCredit, late, { arrived }),
    async addRewards({ rollout_id, attempt_id, covered_until }, rewards) {
      const late = { trace_id: '', rollout_id, attempt_id, rewards, items: 0, received_at: covered_until }
      await creditLate(lateCredit, [late], { force: true })
    },
    lastRevisions: lastUsedRevisions,
    // Whoever asks what to resume is the process that assembles, and credit is resumed with it.
    uncovered() {
      credit.resume()
      return run(uncovered)
    },
    writeRevision,
    commit,
    openCommit,
    recredit: (request) => recredit({ ...writer, credit }, request),
    close,
  }
}

const keyOf = ({ rollout_id, attempt_id }: RolloutKey): string => routeKey(rollout_id, attempt_id)
