// Rewards for rollouts that are stored: their rows take them, and their transitions stay as they are but for credit. That is a
// matter of milliseconds however long ago they ran, and their spans may be gone.

import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'

import { steadyNow } from '../data/clock.ts'
import type { Reward } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { versionOf } from './bookkeeping.ts'
import { creditAlongCourse, creditFromOutline, hasCourse } from './credit_again.ts'
import type { Become, CreditJob } from './credit_job.ts'
import type { Writer } from './credit_rows.ts'
import { rewardsStored } from './is_stored.ts'
import { LONG_STATEMENT, textList } from './literals.ts'
import { outlinedReward, wholeReward, type Outline, type OutlinedReward, type OutlinedRewards } from './outline.ts'
import { openRows, written } from './row_binary.ts'
import { putReward, putRewardTarget, REWARD_COLUMNS, REWARD_TARGET_COLUMNS } from './rollout_rows.ts'
import type { LateReward } from './storage.ts'

interface Deps extends Writer {
  storedRewards(rewardIds: readonly string[]): Promise<string[]>
  readonly again: CreditJob['again']
}

interface LateOptions {
  /** See Storage. */
  readonly arrived?: Promise<readonly LateReward[]> | undefined
  /** What is about a span that an outline does not know is of the whole rollout then, since nobody else can tell any more. */
  readonly force?: boolean
}

/** @returns those that could not be placed, or whose rollout was never credited */
export async function creditLate(
  deps: Deps,
  late: readonly LateReward[],
  { arrived = Promise.resolve(late), force = false }: LateOptions = {},
): Promise<LateReward[]> {
  if (late.length === 0) return []
  const byRollout = new Map<string, LateReward[]>()
  const responses = await spansOfResponses(deps, late)
  // What is read to credit them is asked for first.
  const known = setImmediate().then(() => knownRewards(deps, late))
  const ready = arrived.then((all) => {
    for (const one of all) {
      const key = routeKey(one.rollout_id, one.attempt_id)
      const own = byRollout.get(key)
      if (own) own.push(one)
      else byRollout.set(key, [one])
    }
    return all
  })
  const placed = new Set<LateReward>()
  const inPlace: Become = (row, key, stored) => {
    const own = byRollout.get(key)!
    const late = own.length === 1 ? own[0]!.rewards : own.flatMap((one) => one.rewards)
    const alongCourse = hasCourse(row) && late.every(isOfWhole)
    if (!alongCourse && !stored) return 'outline'
    const rewards = JSON.parse(row.rewards) as OutlinedRewards
    const outline = alongCourse ? undefined : (JSON.parse(String(stored)) as Outline)
    const added = outline ? placedIn(outline, late, responses, force) : late.map((reward) => wholeReward(reward, rewards))
    if (!added) return null
    const fresh = unknownOf(added, rewards)
    let { spans, covered_until } = row
    for (const one of own) {
      placed.add(one)
      if (fresh.length > 0) spans += one.items
      covered_until = Math.max(covered_until, one.received_at)
    }
    const covering = { ...row, spans, covered_until }
    const all = { ...rewards, given: [...rewards.given, ...fresh] }
    return outline ? creditFromOutline(covering, outline, all) : creditAlongCourse(covering, all)
  }
  const after = Promise.all([ready, known]).then(([all, known]) => record(deps, all, known))
  await Promise.all([after, deps.again(late, inPlace, { ready, after })])
  return (await ready).filter((one) => !placed.has(one))
}

/** It names a rollout, a trace or a session, so that its place need not be looked for. */
const isOfWhole = ({ target }: Reward): boolean => target !== undefined && !target.response_id && !target.span_id

/** A reward may be sent again. */
function unknownOf(added: readonly OutlinedReward[], { given }: OutlinedRewards): OutlinedReward[] {
  return added.filter(({ reward_id, times }) => !given.some((known) => known.reward_id === reward_id && known.times[1] === times[1]))
}

/** Null where the outline does not know what one of the rewards is about. */
function placedIn(
  { calls }: Outline,
  rewards: readonly Reward[],
  responses: ReadonlyMap<string, string>,
  force: boolean,
): OutlinedReward[] | null {
  let nodes: Map<string, number> | undefined
  const nodeOf = (span_id: string) => (nodes ??= new Map(calls.map((call) => [call.span_id, call.node]))).get(span_id)
  const placed: OutlinedReward[] = []
  for (const reward of rewards) {
    const { response_id, span_id } = reward.target ?? {}
    const named = responses.get(response_id ?? '') ?? span_id
    const node = named ? nodeOf(named) : undefined
    if (node === undefined && (response_id || span_id) && !force) return null
    const one = outlinedReward(reward, () => -1)
    placed.push({ ...one, target: one.target === null ? null : (node ?? -1) })
  }
  return placed
}

/** Span of the call that answered with each response id that is named. */
async function spansOfResponses({ client, run }: Writer, late: readonly LateReward[]): Promise<Map<string, string>> {
  const named: { readonly rollout_id: string; readonly response_id: string }[] = []
  for (const { rollout_id, rewards } of late) {
    for (const { target } of rewards) if (target?.response_id) named.push({ rollout_id, response_id: target.response_id })
  }
  if (named.length === 0) return new Map()
  const query = `
    SELECT DISTINCT response_id, span_id FROM transition_rows
    WHERE tenant = '' AND rollout_id IN ${textList(named.map(({ rollout_id }) => rollout_id))}
      AND response_id IN ${textList(named.map(({ response_id }) => response_id))}`
  const answer = await run(() => client.query({ query, format: 'JSONEachRow', clickhouse_settings: LONG_STATEMENT }))
  const rows = await answer.json<{ response_id: string; span_id: string }>()
  return new Map(rows.map(({ response_id, span_id }) => [response_id, span_id]))
}

/** Of these, what the ledger holds. */
async function knownRewards({ run, storedRewards }: Deps, late: readonly LateReward[]): Promise<ReadonlySet<string>> {
  return new Set(await run(() => storedRewards(late.flatMap(({ rewards }) => rewards.map(({ reward_id }) => reward_id)))))
}

/** In the ledger, once however often they are sent. */
async function record({ insert }: Deps, late: readonly LateReward[], known: ReadonlySet<string>): Promise<void> {
  const now = steadyNow()
  const unknown: string[] = []
  const ledger = openRows()
  const targets = openRows()
  for (const { rollout_id, attempt_id, rewards } of late) {
    const rollout = { tenant: '', rollout_id, attempt_id }
    for (const reward of rewards) {
      const version = versionOf(reward)
      if (!known.has(version)) {
        putReward(ledger, rollout, reward, now)
        unknown.push(version)
      }
      putRewardTarget(targets, rollout, reward, now)
    }
  }
  if (targets.count === 0) return
  await Promise.all([
    ledger.count > 0 && insert('rewards', REWARD_COLUMNS, written(ledger), randomUUID(), () => rewardsStored(unknown)),
    insert('reward_targets', REWARD_TARGET_COLUMNS, written(targets), randomUUID()),
  ])
}
