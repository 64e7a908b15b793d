// Joins traces and logs into rollouts. Storage comes first: `consume` resolves once the raw spans
// are in ClickHouse, and from then on everything here can be rebuilt from there.

import { setTimeout as sleep } from 'node:timers/promises'

import { steadyNow } from '../data/clock.ts'
import { openRollouts, type OpenRollouts, type Taken as Due } from '../data/open_rollouts.ts'
import type { Problem, Rollout } from '../data/rollout.ts'
import { hintsOf, routeKey } from '../data/routing.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { inTraces } from '../data/stray_rewards.ts'
import { traceOwners } from '../data/trace_owners.ts'
import { dialects } from '../dialects/index.ts'
import { connector, Permanent, Refused, type Consumer } from '../pipeline/component.ts'
import { overflow, type Overflow } from '../pipeline/disk/overflow.ts'
import type { QueueFolder } from '../pipeline/disk/persistent.ts'
import { duration, extensionId, group, list, number, oneOf, text } from '../pipeline/schema.ts'
import { addArrived, arriving, attachRewards, claimTraces, type Arriving, type Books } from '../storage/arrivals.ts'
import { lateRewards } from '../storage/late_rewards.ts'
import { resumeOpen } from '../storage/resume.ts'
import { nextRevisions, Unassemblable } from '../storage/revisions.ts'
import { Unavailable, type RolloutKey, type Storage, type Stored } from '../storage/storage.ts'

const MIB = 1_048_576
/** How often rollouts are looked through for those that are due, unless something is urgent. */
const SWEEP_MS = 200
/**
 * After closing some there is a rest of so many times as long as that took, up to a limit: those that become due meanwhile are closed
 * together, and what costs most, requests to ClickHouse, leaves it time for the spans that arrive.
 */
const REST = 3
const LONGEST_REST_MS = 1_000
/**
 * At most so many rollouts, and about so many bytes of spans, are closed together: what is asked and committed once for all of them costs
 * ClickHouse hardly more than for one. They are read and written some at a time.
 */
const CLOSE_TOGETHER = 500
const CLOSE_BYTES = 24 * MIB
/** Pause after storage or a pipeline failed; the rollouts concerned stay open. */
const RETRY_MS = 2_000

/** Mostly nothing of a batch is refused. */
const NONE: readonly number[] = []

/** What is told of a rollout when it is live: it is not held until then. */
interface Closed {
  readonly key: string
  readonly reason: string
  readonly problems: readonly Problem[]
  readonly names: readonly string[]
}

export default connector({
  type: 'rollouts',
  summary: 'Stores raw spans and log records, joins them into rollouts, and passes each rollout on when it is finished.',
  signals: ['traces', 'logs'],
  to: ['rollouts'],
  soleUserOf: 'storage',
  config: {
    storage: text('The clickhouse_storage extension that keeps raw spans and commits rollouts.', { default: 'clickhouse_storage' }),
    group_by: oneOf(
      ['trace', 'session'],
      'What makes a rollout of spans that carry no rollout id: their trace, or their session or conversation id.',
      {
        default: 'trace',
      },
    ),
    join_keys: list(
      text('Name of an attribute of spans, log records or their resource.'),
      'Attributes by whose value a reward may name the rollout it is about, such as `order_id`, beside its ids and session.',
      { default: [] },
    ),
    reward_wait: duration('How long a reward waits for the rollout that it is about.', { default: '24h' }),
    root_grace: duration('How long after the last span a rollout whose root has ended waits for more.', { default: '10s' }),
    idle_timeout: duration('A rollout without a new span for so long is closed, finished or not.', { default: '10m' }),
    max_age: duration('A rollout older than this is closed even while spans arrive.', { default: '24h' }),
    max_spans: number('A rollout with so many spans is closed, and takes in no more: what comes then is stored, and counted.', {
      default: 100_000,
      min: 1,
      integer: true,
    }),
    max_bytes_mib: number('The same for a rollout of so many MiB of spans.', { default: 256, min: 1 }),
    memory_mib: number(
      'MiB of the latest spans held in memory; an open rollout that began before them is read back from storage when it closes.',
      { default: 24, min: 1 },
    ),
    sending_queue: group(
      {
        storage: extensionId(
          'storage',
          'The file_storage extension that takes spans and log records while ClickHouse is away or slow. They are acknowledged when ' +
            'they are on disk, and stored in order when it is back, after a restart too. null: they are refused, and clients keep them.',
          { default: null },
        ),
      },
      'What happens while ClickHouse is away or slow.',
    ),
  },

  create(options, context) {
    const max_bytes = options.max_bytes_mib * MIB
    const assembling = { ...options, dialects, max_bytes }
    let storage: Storage
    let open: OpenRollouts
    let books: Books
    let next: Consumer<'rollouts'>
    let whileAway: Overflow | undefined
    let sweep: NodeJS.Timeout | undefined
    let closing = Promise.resolve()
    let scheduled = false
    let resuming = Promise.resolve()
    let retryAt = 0
    let restUntil = 0
    let stopping = false

    context.gauge('leyden_open_rollouts', () => open?.size ?? 0)
    context.gauge('leyden_waiting_rewards', () => books?.late.waiting ?? 0)
    context.gauge('leyden_open_rollouts_bytes', () => open?.bytes ?? 0)
    context.gauge('leyden_open_rollouts_released', () => open?.released ?? 0)

    async function start(outputs: { rollouts?: Consumer<'rollouts'> }): Promise<void> {
      storage = context.extension<Storage>(options.storage)
      open = openRollouts({ ...options, max_bytes }, storage.holdSpans(options.memory_mib * MIB))
      const owners = traceOwners(open.rename)
      next = outputs.rollouts ?? (async () => {})
      const late = lateRewards({
        ...{ storage, dialects, joinKeys: options.join_keys, wait: options.reward_wait },
        attach: (key, traceIds) => attachRewards({ open, owners }, key, traceIds),
        isOpen: open.has,
        givenUp: (n) => context.count('leyden_rewards_without_rollout', n),
        report,
      })
      books = { open, owners, late }
      const { storage: folder } = options.sending_queue
      if (folder !== null) {
        const disk = await context.extension<QueueFolder>(folder).open(`connector_${context.id}`, context)
        whileAway = overflow(disk, store, context)
      }
      resuming = resume()
      sweep = setInterval(() => performance.now() >= restUntil && scheduleClose(), SWEEP_MS)
    }

    // In loops, since V8's `map` makes another kind of array once it is compiled, for which all that reads it has to be compiled again.
    async function store(sent: readonly SpanBatch[]): Promise<void> {
      const batches: SpanBatch[] = []
      const hints: (readonly string[])[] = []
      for (const one of sent) {
        const batch = inTraces(one, options.join_keys)
        batches.push(batch)
        hints.push(hintsOf(batch, options.group_by))
      }
      const stored = storage.insertSpans(batches, hints)
      const arrivals: Arriving[] = []
      for (let b = 0; b < batches.length; b++) arrivals.push(arriving(batches[b]!, hints[b]!))
      for (const arrived of arrivals) claimTraces(books, arrived)
      for (const { batch, hints } of arrivals) if (books.late.expect(batch, hints, stored)) scheduleClose()
      addStored(arrivals, await stored.catch(tooBusy))
    }

    function addStored(arrivals: readonly Arriving[], { rows, refused }: Stored): void {
      for (let b = 0; b < arrivals.length; b++) {
        const arrived = arrivals[b]!
        const aside = refused.length > 0 ? refused.flatMap(({ batch, i }) => (batch === arrived.batch ? i : [])) : NONE
        if (addArrived(books, arrived, { rows: rows[b]!, refused: aside, homeless })) scheduleClose()
      }
    }

    function tooBusy(error: unknown): never {
      if (error instanceof Unavailable) throw new Refused(error.message, error.retryAfterMs, { cause: error })
      throw error
    }

    const homeless = (signal: string) => context.count('leyden_items_without_rollout', 1, { signal })

    function scheduleClose(): void {
      if (scheduled) return
      scheduled = true
      closing = closing.then(async () => {
        scheduled = false
        if (steadyNow() < retryAt) return
        const began = performance.now()
        await books.late.resolve().catch(failedToResolve)
        await close(open.takeDue(steadyNow()))
        const ended = performance.now()
        restUntil = ended + Math.min(REST * (ended - began), LONGEST_REST_MS)
      })
    }

    function failedToResolve(error: Error): void {
      retryAt = steadyNow() + RETRY_MS
      context.health(`rollouts of late rewards cannot be looked up: ${error.message}`)
    }

    async function close(due: readonly Due[]): Promise<void> {
      let some: Due[] = []
      let bytes = 0
      for (const one of due) {
        some.push(one)
        bytes += one.rollout.bytes
        if (some.length < CLOSE_TOGETHER && bytes < CLOSE_BYTES) continue
        await settle(some)
        some = []
        bytes = 0
      }
      if (some.length > 0) await settle(some)
    }

    /** Storage commits a revision only when every pipeline behind has taken it. */
    async function settle(due: readonly Due[]): Promise<void> {
      try {
        const commit = storage.openCommit()
        const closed: Closed[] = []
        for await (const { revisions, beyond } of nextRevisions(storage, due, assembling)) {
          if (revisions.length > 0) await next(revisions)
          await commit.add(revisions)
          closed.push(...revisions.map(closedOf))
          if (beyond > 0) context.count('leyden_items_beyond_limits', beyond)
        }
        tell(closed, await commit.done())
        context.health(null)
      } catch (error) {
        await failed(due, error as Error)
      }
    }

    const closedOf = (rollout: Rollout): Closed => ({
      key: routeKey(rollout.rollout_id, rollout.attempt_id),
      reason: rollout.closed_by,
      problems: rollout.problems,
      names: books.late.namesOf(rollout),
    })

    function tell(closed: readonly Closed[], refused: readonly RolloutKey[]): void {
      const lost = new Set(refused.map(({ rollout_id, attempt_id }) => routeKey(rollout_id, attempt_id)))
      for (const key of lost) givenUp(key, 'ClickHouse refuses its row: see `rejects`')
      const live = closed.filter(({ key }) => !lost.has(key))
      books.late.committed(live.flatMap(({ names }) => names))
      for (const { reason, problems } of live) {
        context.count('leyden_rollouts_closed', 1, { reason })
        report(problems)
      }
    }

    function report(problems: readonly Problem[]): void {
      for (const { reason } of problems) context.count('leyden_reading_problems', 1, { reason })
    }

    async function failed(due: readonly Due[], error: Error): Promise<void> {
      if (!(error instanceof Permanent || error instanceof Unassemblable)) {
        for (const { rollout } of due) open.restore(rollout)
        retryAt = steadyNow() + RETRY_MS
        context.health(`rollouts cannot be closed: ${error.message}`)
        return
      }
      if (due.length > 1) {
        const middle = due.length >> 1
        await settle(due.slice(0, middle))
        await settle(due.slice(middle))
        return
      }
      givenUp(due[0]!.rollout.key, error.message)
    }

    function givenUp(key: string, error: string): void {
      context.count('leyden_rollouts_failed')
      context.log.error('a rollout failed for good and is left out; its spans are kept', { rollout: key.replace('\u0000', '/'), error })
    }

    /** Opens again what an earlier run left open, or closed before its last spans came. */
    async function resume(): Promise<void> {
      for (;;) {
        try {
          await resumeOpen(storage, books, options.group_by, () => stopping)
          scheduleClose()
          return
        } catch (error) {
          if (stopping) return
          context.log.debug('open rollouts cannot be resumed yet', { error: (error as Error).message })
          await sleep(RETRY_MS)
        }
      }
    }

    /** What has ended is closed now; the rest is in storage, and the next start resumes it. */
    async function shutdown(): Promise<void> {
      stopping = true
      clearInterval(sweep)
      await whileAway?.stop()
      await resuming
      await closing
      await close(open?.takeFinished() ?? [])
    }

    return { start, consume: (batches) => (whileAway?.consume ?? store)(batches), shutdown }
  },
})
