// Which rollout a span or log record says it belongs to. The answer is its hint: '' where it says
// nothing, and then its trace decides.

import { attribute, resource } from './scan.ts'
import type { Attributes, Item, Value } from './span.ts'
import type { Envelope, SpanBatch } from './span_batch.ts'

/** Where an item without a trace is kept: a log record written outside of any span, in the place of its rollout. */
export const placeOf = (traceId: string, hint: string): string => traceId || hint.replace('\u0000', '/')

export type GroupBy = 'trace' | 'session'

/** A rollout id and an attempt id as one string. Neither may hold a NUL. */
export const routeKey = (rolloutId: string, attemptId: string): string => `${rolloutId}\u0000${attemptId}`

export const isWithoutAttempt = (key: string): boolean => key.endsWith('\u0000')

export function splitKey(key: string): { rollout_id: string; attempt_id: string } {
  const cut = key.indexOf('\u0000')
  return { rollout_id: key.slice(0, cut), attempt_id: key.slice(cut + 1) }
}

/** The hint of each item: its own attributes first, then its resource's. An empty list where none has any. */
export function hintsOf(batch: SpanBatch, groupBy: GroupBy): readonly string[] {
  const places = placesIn(batch.keys)
  let hints: string[] | undefined
  let last: Envelope | undefined
  let lastHint = ''
  for (let i = 0; i < batch.count; i++) {
    const its = resource(batch, i)
    if (its !== last) lastHint = resourceHint((last = its), groupBy)
    const hint = (saysAnything(batch, i, places) && ownHint(batch, i, groupBy)) || lastHint
    if (hint !== '') (hints ??= new Array<string>(batch.count).fill(''))[i] = hint
  }
  return hints ?? NONE
}

const NONE: readonly string[] = []

/** Most items have none of the attributes that are looked for. */
function saysAnything({ slots, keys }: SpanBatch, i: number, places: readonly number[]): boolean {
  const first = i * keys.length
  for (let p = 0; p < places.length; p++) if (slots[first + places[p]!] !== 0) return true
  return false
}

const ownHint = (batch: SpanBatch, i: number, groupBy: GroupBy): string => read((key) => attribute(batch, i, key), groupBy)

/** By these an item names its rollout. */
export const ROLLOUT_KEYS: readonly string[] = [
  'agentlightning.rollout_id',
  'agentlightning.attempt_id',
  'leyden.rollout.id',
  'leyden.attempt.id',
  'metadata.requester_custom_headers',
]

const HINTS: readonly string[] = [
  'agentlightning.rollout_id',
  'leyden.rollout.id',
  'metadata.requester_custom_headers',
  'session.id',
  'gen_ai.conversation.id',
]
/** All that hintOfItem() looks at. */
export const HINT_KEYS = new Set([...ROLLOUT_KEYS, ...HINTS])

const places = new WeakMap<readonly string[], number[]>()

function placesIn(keys: readonly string[]): readonly number[] {
  let found = places.get(keys)
  if (!found) places.set(keys, (found = HINTS.map((key) => keys.indexOf(key)).filter((place) => place >= 0)))
  return found
}

export function hintOfItem(item: Pick<Item, 'attributes' | 'resource'>, groupBy: GroupBy): string {
  return read((key) => item.attributes[key], groupBy) || read((key) => item.resource[key], groupBy)
}

/** Items by the rollout they belong to. The first hint in a trace claims what is in it and says nothing itself. */
export function itemsByRollout(items: readonly Item[], groupBy: GroupBy): Map<string, Item[]> {
  const owners = new Map<string, string>()
  for (const item of items) {
    const hint = hintOfItem(item, groupBy)
    if (hint && item.trace_id && !owners.has(item.trace_id)) owners.set(item.trace_id, hint)
  }
  const rollouts = new Map<string, Item[]>()
  for (const item of items) {
    const key = hintOfItem(item, groupBy) || owners.get(item.trace_id) || routeKey(item.trace_id, '')
    const group = rollouts.get(key)
    if (group) group.push(item)
    else rollouts.set(key, [item])
  }
  return rollouts
}

/** What an item or its resource says of the rollout as a whole; the first to say something is heard. */
export interface Facts {
  readonly task_id: string
  readonly group_id: string
  readonly group_size: number
  readonly mode: 'train' | 'val'
}

export const FACT_KEYS = ['leyden.task.id', 'leyden.group.id', 'leyden.group.size', 'leyden.mode'] as const
type FactKey = (typeof FACT_KEYS)[number]

/** A UInt32, as it is stored. */
const LARGEST_GROUP = 2 ** 32 - 1

/** The items are shown to it one by one. */
export function factsTaker(): { take(item: Item): void; takeResource(resource: Attributes): void; facts(): Facts } {
  const said: Record<FactKey, string> = { 'leyden.task.id': '', 'leyden.group.id': '', 'leyden.group.size': '', 'leyden.mode': '' }
  let latest: Attributes | undefined

  function takeResource(resource: Attributes): void {
    if (resource === latest) return
    latest = resource
    for (const key of FACT_KEYS) if (said[key] === '') said[key] = text(resource[key])
  }

  return {
    take(item) {
      for (const key of FACT_KEYS) if (said[key] === '') said[key] = text(item.attributes[key])
      takeResource(item.resource)
    },
    takeResource,
    facts() {
      const size = Number(said['leyden.group.size'])
      return {
        task_id: said['leyden.task.id'],
        group_id: said['leyden.group.id'],
        group_size: Number.isInteger(size) && size > 0 && size <= LARGEST_GROUP ? size : 0,
        mode: said['leyden.mode'] === 'val' ? 'val' : 'train',
      }
    },
  }
}

const hints: Record<GroupBy, WeakMap<Envelope, string>> = { trace: new WeakMap(), session: new WeakMap() }

function resourceHint(envelope: Envelope, groupBy: GroupBy): string {
  let hint = hints[groupBy].get(envelope)
  if (hint === undefined) hints[groupBy].set(envelope, (hint = read((key) => envelope.attributes[key], groupBy)))
  return hint
}

function read(get: (key: string) => Attributes[string] | undefined, groupBy: GroupBy): string {
  const lightning = text(get('agentlightning.rollout_id'))
  if (lightning) return routeKey(lightning, text(get('agentlightning.attempt_id')))
  const own = text(get('leyden.rollout.id'))
  if (own) return routeKey(own, text(get('leyden.attempt.id')))
  const headers = text(get('metadata.requester_custom_headers'))
  const sent = headers && header(headers, 'rollout-id')
  if (sent) return routeKey(sent, header(headers, 'attempt-id'))
  if (groupBy === 'trace') return ''
  const session = text(get('session.id')) || text(get('gen_ai.conversation.id'))
  return session ? routeKey(session, '') : ''
}

/** A LiteLLM proxy writes the headers of a request as Python prints a dict. `x-rollout-id` is agent-lightning's. */
const header = (headers: string, name: string): string =>
  new RegExp(`['"]x-(?:leyden-)?${name}['"]: ['"]([^'"]*)`, 'i').exec(headers)?.[1] ?? ''

/** Ids are text, but some SDKs send numbers. */
function text(value: Value | undefined): string {
  if (typeof value === 'string') return value.includes('\u0000') ? value.replaceAll('\u0000', '') : value
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : ''
}
