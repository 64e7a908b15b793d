// Finds the rollout of each reward that came by itself, at once or when the rollout comes; until then it waits, so many of them and
// so long. Nothing is lost with this process: raw records that belong to no rollout are found again by the next.

import type { Dialect } from '../data/dialect.ts'
import type { Rollout } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { readItem } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { keysOf, mayBeStray, targetKey, targetsOf, waitingRewards, type Stray } from '../data/stray_rewards.ts'
import type { Storage } from './storage.ts'

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
  committed(rollouts: readonly Rollout[]): void
}

export interface LateRewardsOptions {
  readonly storage: Pick<Storage, 'findTargets' | 'join'>
  readonly dialects: readonly Dialect[]
  readonly joinKeys: readonly string[]
  /** Milliseconds. */
  readonly wait: number
  readonly isOpen: (key: string) => boolean
  /** The rollout gets these traces, and is to be credited again. */
  readonly attach: (key: string, traceIds: readonly string[]) => void
  /** One that waited too long, or for which there was no room. */
  readonly givenUp: (n: number) => void
}

const MAX_WAITING = 100_000
/** So many are looked up together. */
const TOGETHER = 5_000

export function lateRewards({ storage, dialects, joinKeys, wait, isOpen, attach, givenUp }: LateRewardsOptions): LateRewards {
  const waiting = waitingRewards(MAX_WAITING)
  let taken: Stray[] = []

  function takeItem(item: Item): boolean {
    if (item.trace_id === '') return false
    const targets = targetsOf(item, dialects, joinKeys)
    if (targets.length === 0) return false
    taken.push({ trace_id: item.trace_id, targets, since: Date.now() })
    return true
  }

  function takeTraces(items: readonly Item[]): Set<string> {
    const isStray = (item: Item) => targetsOf(item, dialects, joinKeys).length > 0
    const others = new Set(items.filter((item) => !isStray(item)).map(({ trace_id }) => trace_id))
    const strays = items.filter(({ trace_id }) => !others.has(trace_id))
    return new Set(strays.filter(takeItem).map(({ trace_id }) => trace_id))
  }

  async function resolve(): Promise<void> {
    const expired = waiting.takeBefore(Date.now() - wait)
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
    const found: { stray: Stray; key: string }[] = []
    for (const stray of strays) {
      const rollout = stray.targets.map((target) => known.get(target)).find((one) => one !== undefined)
      const key = rollout ? routeKey(rollout.rollout_id, rollout.attempt_id) : openKey(stray)
      if (key !== undefined) found.push({ stray, key })
      else givenUp(waiting.add(stray).length)
    }
    await attachAll(found)
  }

  /** A run that is going on is not known to storage, but may be open here. */
  function openKey({ targets }: Stray): string | undefined {
    const keys = targets.flatMap((target) => {
      const [name, value] = target.split('\u0000') as [string, string]
      if (name === 'attempt') return [value.replace('/', '\u0000')]
      return name === 'rollout' || name === 'trace' ? [routeKey(value, '')] : []
    })
    return keys.find(isOpen)
  }

  async function attachAll(found: readonly { stray: Stray; key: string }[]): Promise<void> {
    if (found.length === 0) return
    await storage.join(
      found.map(({ stray: { trace_id }, key }) => {
        const [rollout_id, attempt_id] = key.split('\u0000') as [string, string]
        return { trace_id, rollout_id, attempt_id }
      }),
    )
    const traces = new Map<string, string[]>()
    for (const { stray, key } of found) traces.set(key, [...(traces.get(key) ?? []), stray.trace_id])
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
    committed(rollouts) {
      if (waiting.size > 0) wake(rollouts.flatMap(keysOf))
    },
  }
}
