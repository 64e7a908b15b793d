// Finds the rollout of each reward that came by itself, at once or when the rollout comes; until then it waits, so many of them and
// so long. A rollout that is stored is credited again from its outline, many in one go; one that is open, or whose outline does not
// know what the reward is about, is read again with it. Nothing is lost with this process: raw records that belong to no rollout are
// found again by the next.

import { steadyNow } from '../data/clock.ts'
import type { Dialect } from '../data/dialect.ts'
import { rewardsOf } from '../data/reward_reading.ts'
import type { Problem, Rollout } from '../data/rollout.ts'
import { routeKey, splitKey } from '../data/routing.ts'
import { readItem } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { keysOf, mayBeStray, targetKey, targetsOf, waitingRewards, type Stray } from '../data/stray_rewards.ts'
import type { LateReward, Storage, KnownRollout } from './storage.ts'

export interface LateRewards {
  /** How many wait for their rollout. */
  readonly waiting: number
  /** Takes item i of a batch, stored already, if it is a reward that says what it is about. */
  take(batch: SpanBatch, i: number): boolean
  /** Takes the traces all of whose items are such rewards. */
  takeTraces(items: readonly Item[]): Set<string>
  /** Looks for the rollouts of what was taken. Rejects when storage cannot be asked; what was taken is then kept. */
  resolve(): Promise<void>
  /** A rollout of this key gets spans: rewards about it wait no longer. */
  opened(key: string): void
  /** By which rewards that wait may name this rollout. */
  namesOf(rollout: Rollout): readonly string[]
  /** Rollouts of these names are known to storage now. */
  committed(names: readonly string[]): void
}

type Late = LateReward & Pick<Stray, 'problems'>

interface Found {
  readonly stray: Stray
  readonly rollout: KnownRollout
}

export interface LateRewardsOptions {
  readonly storage: Pick<Storage, 'findTargets' | 'join' | 'creditLate'>
  readonly dialects: readonly Dialect[]
  readonly joinKeys: readonly string[]
  /** Milliseconds. */
  readonly wait: number
  readonly isOpen: (key: string) => boolean
  /** The rollout gets these traces, and is to be credited again. */
  readonly attach: (key: string, traceIds: readonly string[]) => void
  /** One that waited too long, or for which there was no room. */
  readonly givenUp: (n: number) => void
  /** Rewards of rollouts credited from their outlines that could not be used; the others are told of when they are read again. */
  readonly report: (problems: readonly Problem[]) => void
}

const MAX_WAITING = 100_000
/** So many are looked up together. */
const TOGETHER = 10_000
/** A reward is read by itself here, not at its place in a run. */
const ALONE = { judged: new Uint8Array() }

export function lateRewards({ storage, dialects, joinKeys, wait, isOpen, attach, givenUp, report }: LateRewardsOptions): LateRewards {
  const waiting = waitingRewards(MAX_WAITING)
  let taken: Stray[] = []

  function takeItem(item: Item): boolean {
    if (item.trace_id === '') return false
    const targets = targetsOf(item, dialects, joinKeys)
    if (targets.length === 0) return false
    const problems: Problem[] = []
    const rewards = rewardsOf(item, -1, dialects, { lineage: ALONE, problems })
    taken.push({ trace_id: item.trace_id, targets, rewards, problems, items: 1, since: steadyNow() })
    return true
  }

  function takeTraces(items: readonly Item[]): Set<string> {
    const isStray = (item: Item) => targetsOf(item, dialects, joinKeys).length > 0
    const others = new Set(items.filter((item) => !isStray(item)).map(({ trace_id }) => trace_id))
    const strays = items.filter(({ trace_id }) => !others.has(trace_id))
    return new Set(strays.filter(takeItem).map(({ trace_id }) => trace_id))
  }

  async function resolve(): Promise<void> {
    const expired = waiting.takeBefore(steadyNow() - wait)
    if (expired.length > 0) givenUp(expired.length)
    while (taken.length > 0) {
      const some = taken.splice(0, TOGETHER)
      try {
        await resolveSome(some)
      } catch (error) {
        taken = [...some, ...taken]
        throw error
      }
    }
  }

  async function resolveSome(strays: readonly Stray[]): Promise<void> {
    const known = await storage.findTargets([...new Set(strays.flatMap(({ targets }) => targets))])
    const found: Found[] = []
    for (const stray of strays) {
      const rollout = stray.targets.map((target) => known.get(target)).find((one) => one !== undefined) ?? openOne(stray)
      if (rollout) found.push({ stray, rollout })
      else givenUp(waiting.add(stray).length)
    }
    await give(found)
  }

  /** A run that is going on is not known to storage, but may be open here. */
  function openOne({ targets }: Stray): KnownRollout | undefined {
    const keys = targets.flatMap((target) => {
      const [name, value] = target.split('\u0000') as [string, string]
      if (name === 'attempt') return [value.replace('/', '\u0000')]
      return name === 'rollout' || name === 'trace' ? [routeKey(value, '')] : []
    })
    const key = keys.find(isOpen)
    return key === undefined ? undefined : splitKey(key)
  }

  async function give(found: readonly Found[]): Promise<void> {
    if (found.length === 0) return
    const late = found.map(
      ({ stray: { trace_id, rewards, problems, items, since }, rollout: { rollout_id, attempt_id, group_id } }): Late => {
        return { trace_id, rollout_id, attempt_id, group_id, rewards, problems, items, received_at: since }
      },
    )
    const again = new Set<LateReward>(late.filter(({ rollout_id, attempt_id }) => isOpen(routeKey(rollout_id, attempt_id))))
    // Either may be lost with this process: the next finds the raw records, and what was done already is not done twice. Credit is waited for,
    // so that it comes first and has ClickHouse for itself.
    const left = await storage.creditLate(late.filter((one) => !again.has(one)))
    await storage.join(late)
    for (const one of left) again.add(one)
    const traces = new Map<string, string[]>()
    for (const one of late) {
      if (!again.has(one)) {
        report(one.problems)
        continue
      }
      const key = routeKey(one.rollout_id, one.attempt_id)
      traces.set(key, [...(traces.get(key) ?? []), one.trace_id])
    }
    for (const [key, traceIds] of traces) attach(key, traceIds)
  }

  /** Those that waited for it are looked up again, now that they will be found. */
  const wake = (keys: readonly string[]) => void taken.push(...waiting.take(keys))

  return {
    get waiting() {
      return waiting.size
    },
    take: (batch, i) => mayBeStray(batch, i) && takeItem(readItem(batch, i)),
    takeTraces,
    resolve,
    opened(key) {
      if (waiting.size === 0) return
      const [rollout_id, attempt_id] = key.split('\u0000') as [string, string]
      wake([targetKey('rollout', rollout_id), targetKey('attempt', `${rollout_id}/${attempt_id}`), targetKey('trace', rollout_id)])
    },
    namesOf: (rollout) => (waiting.size > 0 ? keysOf(rollout) : []),
    committed: wake,
  }
}
