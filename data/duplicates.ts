// One call once. Several instrumentations record the same model call: as parent and child, as siblings, or in
// traces of their own. The richer record wins and fills its gaps from the others.

import type { Message } from './dialect.ts'
import { textIn, toolCallsIn } from './messages.ts'
import type { Call } from './rollout.ts'
import { argumentsKey } from './tool_values.ts'
import { fillGaps, isGap } from './values.ts'

/** Records of one call by two instrumentations that share neither an id nor a parent start this close together. */
const TOGETHER_NS = 50_000_000n
/** Records with one key that a further one is compared with: test doubles answer every call with the same id. */
const COMPARED = 4

/** @param calls by start time @param callAbove by node: the nearest model call above it, -1 for none */
export function mergeDuplicates(calls: readonly Call[], callAbove: Int32Array): { calls: readonly Call[]; duplicates: number } {
  const groups = groupsOf(calls.length)
  const indexAt = new Int32Array(callAbove.length).fill(-1)
  for (let i = 0; i < calls.length; i++) if (calls[i]!.node !== -1) indexAt[calls[i]!.node] = i
  const contents: string[] = []
  const contentOf = (i: number) => (contents[i] ??= contentKey(calls[i]!))
  const sameContent = (a: number, b: number) => contentOf(a) !== '' && contentOf(a) === contentOf(b)

  joinRecent(
    calls,
    groups,
    ({ response_id }) => response_id,
    (a, b) =>
      mayShareRollout(calls[a]!, calls[b]!) &&
      (overlap(calls[a]!, calls[b]!)
        ? differentScope(calls[a]!, calls[b]!) || sameContent(a, b)
        : differentScope(calls[a]!, calls[b]!) && sameContent(a, b)),
  )
  for (let i = 0; i < calls.length; i++) {
    const call = calls[i]!
    const nodeAbove = call.node === -1 ? -1 : callAbove[call.node]!
    const above = nodeAbove === -1 ? -1 : indexAt[nodeAbove]!
    if (above !== -1 && idMissing(call, calls[above]!) && (sameOutput(call, calls[above]!) ?? sameContent(i, above))) groups.join(above, i)
  }
  const together = (a: Call, b: Call) => b.start_time - a.start_time <= TOGETHER_NS && a.model === b.model
  const scopes = new Set(calls.map(({ scope }) => scope))
  if (scopes.size > 1) {
    joinRecent(
      calls,
      groups,
      (call, i) => contentOf(i) && `${call.session ?? ''}\0${contentOf(i)}`,
      (a, b) => idMissing(calls[a]!, calls[b]!) && differentScope(calls[a]!, calls[b]!) && together(calls[a]!, calls[b]!),
    )
  }

  const merged = groups.sets().map((set) => (typeof set === 'number' ? calls[set]! : merge(set.map((i) => calls[i]!))))
  return { calls: merged.sort(byStart), duplicates: calls.length - merged.length }
}

const byStart = (a: Call, b: Call): number => (a.start_time < b.start_time ? -1 : a.start_time > b.start_time ? 1 : 0)

/** Joins each call with the latest ones of the same key that it matches. */
function joinRecent(
  calls: readonly Call[],
  groups: Groups,
  keyOf: (call: Call, i: number) => string | undefined,
  matches: (earlier: number, later: number) => boolean,
): void {
  // Nearly every key comes once.
  const seen = new Map<string, number | number[]>()
  for (let i = 0; i < calls.length; i++) {
    const key = keyOf(calls[i]!, i)
    if (!key) continue
    const known = seen.get(key)
    if (known === undefined) {
      seen.set(key, i)
      continue
    }
    const recent = typeof known === 'number' ? [known] : known
    seen.set(key, recent)
    for (const earlier of recent) if (matches(earlier, i)) groups.join(earlier, i)
    if (recent.push(i) > COMPARED) recent.shift()
  }
}

const overlap = (a: Call, b: Call) => a.start_time <= b.end_time && b.start_time <= a.end_time
/** A server that is told only the trace names no rollout. */
const mayShareRollout = (a: Call, b: Call) => a.rollout_id === undefined || b.rollout_id === undefined || a.rollout_id === b.rollout_id
const differentScope = (a: Call, b: Call) => a.scope !== b.scope
const idMissing = (a: Call, b: Call) => a.response_id === undefined || b.response_id === undefined

function sameOutput(a: Call, b: Call): boolean | undefined {
  const [x, y] = [a.usage?.output, b.usage?.output]
  return x === undefined || y === undefined ? undefined : x === y
}

/** What the model answered, as one text; '' where it is not known. */
function contentKey({ completion }: Call): string {
  const asked = toolCallsIn(completion).map((part) => `${part.name}(${argumentsKey(part.arguments)})`)
  return [textIn(completion).trim(), ...asked].join('\0')
}

interface Groups {
  join(a: number, b: number): void
  /** Each by its first member; one that stands alone is a number. */
  sets(): (number | number[])[]
}

/** Disjoint sets of 0 … count - 1. */
function groupsOf(count: number): Groups {
  const leader = Int32Array.from({ length: count }, (_, i) => i)
  const find = (i: number): number => {
    while (leader[i] !== i) i = leader[i] = leader[leader[i]!]!
    return i
  }
  return {
    join: (a, b) => void (leader[find(b)] = find(a)),
    sets() {
      const sets: (number | number[])[] = []
      const places = new Int32Array(count).fill(-1)
      for (let i = 0; i < count; i++) {
        const first = find(i)
        const place = places[first]!
        if (place === -1) places[first] = sets.push(i) - 1
        else {
          const set = sets[place]!
          if (typeof set === 'number') sets[place] = [set, i]
          else set.push(i)
        }
      }
      return sets
    },
  }
}

/** The place is that of the record which an agent, or anything, stands above: the others are mere clients' views. */
function merge(records: readonly Call[]): Call {
  const [richest, ...others] = [...records].sort((a, b) => richness(b) - richness(a))
  const placed =
    records.find((call) => call.agent !== undefined && call.parent_span_id) ?? records.find((call) => call.parent_span_id) ?? richest!
  const { span_id, parent_span_id, trace_id, start_time, end_time, node } = placed
  const whole = others.reduce<Call>(completeFrom, richest!)
  return {
    ...whole,
    ...(placed.agent === undefined ? {} : { agent: placed.agent }),
    ...{ span_id, parent_span_id, trace_id, start_time, end_time, node },
    judged: records.some((call) => call.judged),
    merged_span_ids: records.flatMap((call) => [call.span_id, ...call.merged_span_ids]).filter((id) => id !== span_id),
  }
}

function richness({ tokens, prompt, completion, usage }: Call): number {
  return (tokens?.response.length ? 8 : 0) + (prompt.length > 0 ? 4 : 0) + (completion ? 2 : 0) + (usage ? 1 : 0)
}

/** The call with its gaps filled from another record of it, and with the flags of the messages that were taken. Tool calls without ids are a gap too. */
export function completeFrom<T extends Pick<Call, 'prompt' | 'completion' | 'flags'>>(call: T, other: Partial<T>): T {
  const completion = lacksIds(call.completion) && !isGap(other.completion) && !lacksIds(other.completion) ? undefined : call.completion
  const tookMessages = (isGap(call.prompt) && !isGap(other.prompt)) || (isGap(completion) && !isGap(other.completion))
  const flags = tookMessages ? [...new Set([...call.flags, ...(other.flags ?? [])])] : call.flags
  return { ...fillGaps({ ...call, completion }, other), flags }
}

const lacksIds = (completion: Message | undefined): boolean => toolCallsIn(completion).some((part) => part.id === undefined)
