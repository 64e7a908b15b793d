// Rewards that come by themselves: a score about a rollout that ran elsewhere, long ago, or has not begun. What each is about
// is written as keys, `name` NUL `value`, and one that finds no rollout waits here until one with such a key is known.

import { createHash } from 'node:crypto'

import type { Dialect, Target } from './dialect.ts'
import { EVALUATION, SCORE } from './evaluation.ts'
import type { Problem, Reward, Rollout } from './rollout.ts'
import { rewrite } from './rewrite.ts'
import { itemName, traceId } from './scan.ts'
import type { Item } from './span.ts'
import { nameBegins, nameIs, type SpanBatch } from './span_batch.ts'
import { textOf } from './values.ts'

export const RESPONSE = 'gen_ai.response.id'
export const SESSION = 'session.id'

export const targetKey = (name: string, value: string): string => `${name}\u0000${value}`

/** Whether item i may be such a reward: told from its name alone, since every item is asked. */
export function mayBeStray(batch: SpanBatch, i: number): boolean {
  return batch.signal === 'logs' ? nameIs(batch, i, EVALUATION) : nameBegins(batch, i, 'agentlightning.')
}

/**
 * Evaluations that were written outside of any trace and say what they are about get traces of their own, as scores have: that is how
 * they are kept until their rollout is known, and joined to it.
 */
export function inTraces(batch: SpanBatch, joinKeys: readonly string[]): SpanBatch {
  if (batch.signal !== 'logs') return batch
  const outside = Array.from({ length: batch.count }, (_, i) => i).some(
    (i) => itemName(batch, i) === EVALUATION && traceId(batch, i) === '',
  )
  if (!outside) return batch
  const telling = new Set([RESPONSE, SESSION, SCORE.rollout_id, SCORE.span_id, ...joinKeys])
  return rewrite(batch, (message) => {
    const { eventName, traceId, attributes = [] } = message as { eventName?: string; traceId?: string; attributes?: { key: string }[] }
    if (eventName !== EVALUATION || traceId || !attributes.some(({ key }) => telling.has(key))) return message
    const own = createHash('sha256').update(JSON.stringify(message)).digest('hex').slice(0, 32)
    return { ...message, traceId: own, attributes: [...attributes, { key: SCORE.detached, value: { boolValue: true } }] }
  })
}

/**
 * What a reward says that it is about, the most telling first; the trace that it was written in last. Empty for a span that names
 * nothing: it belongs where it stands.
 */
export function targetsOf(item: Item, dialects: readonly Dialect[], joinKeys: readonly string[]): string[] {
  const keys = new Set<string>()
  const add = (name: string, value: string | undefined) => void (value && keys.add(targetKey(name, value)))
  for (const { rewards } of dialects) for (const { target } of rewards?.(item) ?? []) if (target) addTarget(target, item, add)
  for (const name of joinKeys) add(name, textOf(item.attributes[name]))
  if (item.signal === 'log' && item.attributes[SCORE.detached] !== true) add('trace', item.trace_id || undefined)
  return [...keys]
}

function addTarget(target: Target, item: Item, add: (name: string, value: string | undefined) => void): void {
  add(RESPONSE, target.response_id)
  if (target.rollout_id) {
    const attempt = textOf(item.attributes[SCORE.attempt_id])
    add(attempt ? 'attempt' : 'rollout', attempt ? `${target.rollout_id}/${attempt}` : target.rollout_id)
  }
  if (target.trace_id === undefined) add('span', target.span_id)
  else if (target.trace_id !== item.trace_id) add('trace', target.trace_id)
  add(SESSION, target.session)
}

/** Every key by which a reward may mean this rollout. */
export function keysOf({ rollout_id, attempt_id, trace_ids, calls, tools, keys = [] }: Rollout): string[] {
  const found = new Set([targetKey('rollout', rollout_id), targetKey('attempt', `${rollout_id}/${attempt_id}`)])
  for (const id of trace_ids) found.add(targetKey('trace', id))
  for (const { span_id } of [...calls, ...tools]) found.add(targetKey('span', span_id))
  for (const [name, value] of keys) found.add(targetKey(name, value))
  return [...found]
}

export interface Stray {
  /** The trace that the reward was stored under. */
  readonly trace_id: string
  readonly targets: readonly string[]
  readonly rewards: readonly Reward[]
  /** What could not be used of it. */
  readonly problems: readonly Problem[]
  /** How many log records or spans said so. */
  readonly items: number
  /** When the last of them came, ms since the epoch. */
  readonly since: number
}

const nameOf = ({ trace_id, targets }: Stray): string => [trace_id, ...targets].join('\u0001')

const joined = (before: Stray, after: Stray): Stray => ({
  ...after,
  rewards: [...before.rewards, ...after.rewards],
  problems: [...before.problems, ...after.problems],
  items: before.items + after.items,
})

export interface WaitingRewards {
  readonly size: number
  /** What no longer waits for want of room is returned. */
  add(stray: Stray): Stray[]
  /** Takes out those that one of the keys is meant by. */
  take(keys: readonly string[]): Stray[]
  /** Takes out those that came before. */
  takeBefore(time: number): Stray[]
}

export function waitingRewards(limit: number): WaitingRewards {
  const strays = new Map<string, Stray>()
  const byKey = new Map<string, Set<Stray>>()

  function remove(stray: Stray): void {
    strays.delete(nameOf(stray))
    for (const key of stray.targets) {
      const own = byKey.get(key)
      own?.delete(stray)
      if (own?.size === 0) byKey.delete(key)
    }
  }

  function takeAll(taken: Iterable<Stray>): Stray[] {
    const list = [...new Set(taken)]
    list.forEach(remove)
    return list
  }

  return {
    get size() {
      return strays.size
    },
    add(stray) {
      const before = strays.get(nameOf(stray))
      if (before) remove(before)
      const all = before ? joined(before, stray) : stray
      strays.set(nameOf(all), all)
      for (const key of all.targets) {
        const own = byKey.get(key)
        if (own) own.add(all)
        else byKey.set(key, new Set([all]))
      }
      return takeAll([...strays.values()].slice(0, Math.max(0, strays.size - limit)))
    },
    take: (keys) => (strays.size === 0 ? [] : takeAll(keys.flatMap((key) => [...(byKey.get(key) ?? [])]))),
    takeBefore: (time) => takeAll([...strays.values()].filter(({ since }) => since < time)),
  }
}
