// Finds the rollout of each reward that came by itself, at once or when the rollout comes; until then it waits, so many of them and
// so long. A rollout that is stored is credited again from its outline, many in one go; one that is open, or whose outline does not
// know what the reward is about, is read again with it. Nothing is lost with this process: raw records that belong to no rollout are
// found again by the next.

import { steadyNow } from '../data/clock.ts'
import type { Dialect } from '../data/dialect.ts'
import { SCORE } from '../data/evaluation.ts'
import { rewardsOf } from '../data/reward_reading.ts'
import type { Problem, Rollout } from '../data/rollout.ts'
import { routeKey, splitKey } from '../data/routing.ts'
import { readItem } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { keysOf, mayBeStray, targetKey, targetsOf, waitingRewards, type Stray } from '../data/stray_rewards.ts'
import type { KnownRollout, LateReward, RolloutKey, Storage, Stored } from './storage.ts'

export interface LateRewards {
  /** How many wait for their rollout. */
  readonly waiting: number
  /**
   * Takes those of a batch that stand in traces made up for them, while it is being stored: what they are about is found and read meanwhile.
   * @param hints what of it names another rollout is not taken
   * @returns whether there are any
   */
  expect(batch: SpanBatch, hints: readonly string[], stored: Promise<Stored>): boolean
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
type Known = ReadonlyMap<string, KnownRollout>

interface Taken {
  readonly stray: Stray
  /** Undefined for what is stored. */
  readonly expected?: Expected | undefined
}

/** What is being stored. */
interface Expected {
  /** What was found already of what it is about, and others with it. */
  readonly known: Promise<Known>
  /** Items of its batch that are refused for good; null where nothing was stored, of which the sender is told. */
  readonly refused: Promise<ReadonlySet<number> | null>
  readonly i: number
}

interface Found extends Taken {
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
const NOTHING: Known = new Map()
/** A reward is read by itself here, not at its place in a run. */
const ALONE = { judged: new Uint8Array() }

export function lateRewards({ storage, dialects, joinKeys, wait, isOpen, attach, givenUp, report }: LateRewardsOptions): LateRewards {
  const waiting = waitingRewards(MAX_WAITING)
  /** Those of its items that were taken before it was stored. */
  const expected = new WeakMap<SpanBatch, ReadonlySet<number>>()
  let taken: Taken[] = []

  function readStray(item: Item): Stray | null {
    if (item.trace_id === '') return null
    const targets = targetsOf(item, dialects, joinKeys)
    if (targets.length === 0) return null
    const problems: Problem[] = []
    const rewards = rewardsOf(item, -1, dialects, { lineage: ALONE, problems })
    return { trace_id: item.trace_id, targets, rewards, problems, items: 1, since: steadyNow() }
  }

  /** Most batches are not looked through: only their first item is asked. */
  function expect(batch: SpanBatch, hints: readonly string[], stored: Promise<Stored>): boolean {
    if (batch.count === 0 || !mayBeStray(batch, 0)) return false
    const strays = new Map<number, Stray>()
    for (let i = 0; i < Math.min(batch.count, TOGETHER); i++) {
      const item = !hints[i] && mayBeStray(batch, i) ? readItem(batch, i) : undefined
      const stray = item && item.attributes[SCORE.detached] === true ? readStray(item) : null
      if (stray) strays.set(i, stray)
    }
    if (strays.size === 0) return false
    // What is not found, for whatever reason, is looked up again.
    const known = storage.findTargets([...new Set([...strays.values()].flatMap(({ targets }) => targets))]).catch(() => NOTHING)
    const refused = stored.then(
      ({ refused }) => new Set(refused.flatMap((place) => (place.batch === batch ? place.i : []))),
      () => null,
    )
    for (const [i, stray] of strays) taken.push({ stray, expected: { known, refused, i } })
    expected.set(batch, new Set(strays.keys()))
    return true
  }

  function take(batch: SpanBatch, i: number): boolean {
    if (expected.get(batch)?.has(i)) return true
    const stray = mayBeStray(batch, i) ? readStray(readItem(batch, i)) : null
    if (stray) taken.push({ stray })
    return stray !== null
  }

  function takeTraces(items: readonly Item[]): Set<string> {
    const isStray = (item: Item) => targetsOf(item, dialects, joinKeys).length > 0
    const others = new Set(items.filter((item) => !isStray(item)).map(({ trace_id }) => trace_id))
    const strays = items.flatMap((item) => (others.has(item.trace_id) ? [] : (readStray(item) ?? [])))
    for (const stray of strays) taken.push({ stray })
    return new Set(strays.map(({ trace_id }) => trace_id))
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

  async function resolveSome(strays: readonly Taken[]): Promise<void> {
    const known = await lookUp(strays)
    const rolloutOf = (stray: Stray) => rolloutIn(known, stray)
    const closed: Found[] = []
    const others: Taken[] = []
    for (const { stray, expected } of strays) {
      const rollout = rolloutOf(stray)
      if (rollout && !isOpen(keyOf(rollout))) closed.push({ stray, expected, rollout })
      else others.push({ stray, expected })
    }
    const credited = arrived(closed).then((some) => some.map(lateOf))
    // Credit is waited for, so that it comes first and has ClickHouse for itself.
    const again = new Set<Late>((await storage.creditLate(closed.map(lateOf), credited)) as Late[])
    for (const { stray } of await arrived(others)) {
      const rollout = rolloutOf(stray) ?? openOne(stray)
      if (rollout) again.add(lateOf({ stray, rollout }))
      else givenUp(waiting.add(stray).length)
    }
    await settle(await credited, again)
  }

  async function lookUp(strays: readonly Taken[]): Promise<Known> {
    const early = await Promise.all(new Set(strays.flatMap(({ expected }) => expected?.known ?? [])))
    const known = early.length === 1 ? early[0]! : new Map(early.flatMap((some) => [...some]))
    const others = strays.filter(({ stray }) => !rolloutIn(known, stray))
    if (others.length === 0) return known
    const found = await storage.findTargets([...new Set(others.flatMap(({ stray }) => stray.targets))])
    return new Map([...known, ...found])
  }

  /** Those that are stored, once it is known which are. */
  async function arrived<T extends Taken>(some: readonly T[]): Promise<T[]> {
    const early = new Set(some.map(({ expected }) => expected?.refused))
    const refused = new Map<Expected['refused'] | undefined, ReadonlySet<number> | null>()
    for (const one of early) if (one) refused.set(one, await one)
    const now = steadyNow()
    return some.flatMap((one) => {
      if (!one.expected) return one
      if (refused.get(one.expected.refused)?.has(one.expected.i) !== false) return []
      // Stamped anew, for it covers what was stored of it.
      return { ...one, stray: { ...one.stray, since: now } }
    })
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

  /** Either may be lost with this process: the next finds the raw records, and what was done already is not done twice. */
  async function settle(credited: readonly Late[], again: ReadonlySet<Late>): Promise<void> {
    const all = new Set([...credited, ...again])
    if (all.size === 0) return
    await storage.join([...all])
    const traces = new Map<string, string[]>()
    for (const one of all) {
      if (!again.has(one)) {
        report(one.problems)
        continue
      }
      const key = keyOf(one)
      traces.set(key, [...(traces.get(key) ?? []), one.trace_id])
    }
    for (const [key, traceIds] of traces) attach(key, traceIds)
  }

  /** Those that waited for it are looked up again, now that they will be found. */
  const wake = (keys: readonly string[]) => {
    for (const stray of waiting.take(keys)) taken.push({ stray })
  }

  return {
    get waiting() {
      return waiting.size
    },
    expect,
    take,
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

function rolloutIn(known: Known, { targets }: Stray): KnownRollout | undefined {
  for (const target of targets) {
    const rollout = known.get(target)
    if (rollout) return rollout
  }
  return undefined
}

function lateOf({ stray, rollout }: Found): Late {
  const { trace_id, rewards, problems, items, since } = stray
  const { rollout_id, attempt_id, group_id } = rollout
  return { trace_id, rollout_id, attempt_id, group_id, rewards, problems, items, received_at: since }
}

const keyOf = ({ rollout_id, attempt_id }: RolloutKey): string => routeKey(rollout_id, attempt_id)
