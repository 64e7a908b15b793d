// Who a call is made for: the rollout that it belongs to and the span that it is made in, as its path, its headers or its baggage
// say. A client that can set nothing but a base URL says it in the path.

import type { Header } from '../pipeline/auth.ts'

export interface Origin {
  /** What names the call's rollout: attributes of its span. */
  readonly attributes: Readonly<Record<string, string>>
  /** From `traceparent`; '' where there is none. */
  readonly trace_id: string
  readonly parent_span_id: string
}

/** By attribute: its part of the path, and the headers that may carry it, the first of which counts. */
const NAMES: readonly (readonly [attribute: string, part: string, headers: readonly [string, string?]])[] = [
  ['leyden.rollout.id', 'rollout', ['x-rollout-id', 'x-leyden-rollout-id']],
  ['leyden.attempt.id', 'attempt', ['x-attempt-id', 'x-leyden-attempt-id']],
  ['leyden.task.id', 'task', ['x-leyden-task-id']],
  ['leyden.group.id', 'group', ['x-leyden-group-id']],
  ['leyden.group.size', 'group_size', ['x-leyden-group-size']],
  ['leyden.mode', 'mode', ['x-leyden-mode']],
]
const ALIASES: Readonly<Record<string, string>> = {
  'leyden.rollout.id': 'agentlightning.rollout_id',
  'leyden.attempt.id': 'agentlightning.attempt_id',
}
const PATH = /^((?:\/(?:rollout|attempt|task|group|group_size|mode)\/[^/]+)*)(\/.*)$/
const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/
const MAX_LENGTH = 256
const EMPTY: ReadonlyMap<string, string> = new Map()

/** `/rollout/r1/attempt/a1/v1/models` is `/v1/models` for attempt a1 of r1. */
export function splitPath(url: string): { parts: ReadonlyMap<string, string>; path: string } {
  const query = url.indexOf('?')
  const whole = query < 0 ? url : url.slice(0, query)
  if (whole.startsWith('/v1/')) return { parts: EMPTY, path: whole }
  const [, prefix = '', path = whole] = PATH.exec(whole) ?? []
  const words = prefix.split('/').slice(1)
  const parts = new Map<string, string>()
  for (let i = 0; i + 1 < words.length; i += 2) parts.set(words[i]!, decoded(words[i + 1]!))
  return { parts, path }
}

export function originOf(parts: ReadonlyMap<string, string>, header: Header): Origin {
  const sentBaggage = header('baggage')
  const baggage = sentBaggage === undefined ? EMPTY : readBaggage(sentBaggage)
  const attributes: Record<string, string> = {}
  for (const [attribute, part, names] of NAMES) {
    const said = parts.get(part) || sentIn(header, names) || baggage.get(attribute) || baggage.get(ALIASES[attribute] ?? '')
    const value = said ? clean(said) : ''
    if (value !== '') attributes[attribute] = value
  }
  const [, trace_id = '', parent_span_id = ''] = TRACEPARENT.exec(header('traceparent') ?? '') ?? []
  return { attributes, trace_id, parent_span_id }
}

const sentIn = (header: Header, [name, alias]: readonly [string, string?]): string | undefined =>
  header(name) || (alias === undefined ? undefined : header(alias))

function readBaggage(header: string): ReadonlyMap<string, string> {
  const members = header.split(',').map((member) => member.split(';', 1)[0]!.split('='))
  return new Map(members.flatMap(([key, value]) => (value === undefined ? [] : [[key!.trim(), decoded(value.trim())] as const])))
}

/** Percent-encoding undone, where it is one. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Ids are keys: no control characters, and no longer than an id is. */
// eslint-disable-next-line no-control-regex
const clean = (text: string): string => text.replace(/[\u0000-\u001f]/g, '').slice(0, MAX_LENGTH)
