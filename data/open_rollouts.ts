// Rollouts that still get spans: what arrived for each, and when each is due to be closed.
// Bytes are held up to a budget; past it the oldest rollouts are let go and read back from storage.

import { readLog, readSpan } from './read.ts'
import type { Item } from './span.ts'
import { copyPayload, payloadSize, resource, scope, type Envelope, type SpanBatch } from './span_batch.ts'

export interface Limits {
  /** All times in milliseconds. */
  readonly root_grace: number
  readonly idle_timeout: number
  readonly max_age: number
  readonly max_spans: number
  /** Bytes of one rollout, and of all that are held in memory. */
  readonly max_bytes: number
  readonly memory: number
}

export interface OpenRollout {
  readonly key: string
  readonly traces: Set<string>
  /** What arrived, or null once it was let go: then everything is read back. */
  held: Held[] | null
  bytes: number
  count: number
  first_at: number
  last_at: number
  /** A root span has ended. */
  rooted: boolean
  ended: boolean
  /** It was closed before: these are late spans. */
  late: boolean
  /** To be closed as soon as may be: nothing more is expected. */
  due: boolean
}

/** Items of one batch: their bytes one after the other, and where each ends. One object for all of them, since there are so many. */
interface Held {
  readonly signal: SpanBatch['signal']
  readonly bytes: Buffer
  readonly ends: readonly number[]
  readonly resources: readonly Envelope[]
  readonly scopes: readonly Envelope[]
}

export type ClosedBy = 'end' | 'root' | 'idle' | 'max_age' | 'max_spans' | 'max_bytes' | 'late'

export interface OpenRollouts {
  readonly size: number
  readonly bytes: number
  /** Rollouts whose spans were let go for want of memory, ever. */
  readonly released: number
  has(key: string): boolean
  /** The rollout of this key, opened if need be. */
  get(key: string, now: number): OpenRollout
  /** Adds items of one batch (indices into it) to a rollout. Their bytes are copied: the batch is free again. */
  add(rollout: OpenRollout, batch: SpanBatch, indices: readonly number[], now: number): void
  /** Frees what is held of a rollout: everything of it will be read back. */
  letGo(rollout: OpenRollout): void
  /** Joins the rollout of one key, if there is one, into that of another. */
  rename(from: string, to: string): void
  /** Takes out every rollout that is due, with the reason. */
  takeDue(now: number): { rollout: OpenRollout; closed_by: ClosedBy }[]
  /** Takes out what can be closed early at shutdown: those that ended or whose root did. */
  takeFinished(): { rollout: OpenRollout; closed_by: ClosedBy }[]
  /** Puts a taken rollout back, joined with what has arrived for it since. */
  restore(rollout: OpenRollout): void
}

/** A key that was closed is remembered so long; beyond that, storage is asked. */
const REMEMBERED = 50_000
const ENVELOPES = 4_096

export function openRollouts(limits: Limits): OpenRollouts {
  const open = new Map<string, OpenRollout>()
  const closed = new Set<string>()
  const holding = new Set<OpenRollout>()
  const envelopes = new Map<string, Envelope>()
  const copies = new WeakMap<Envelope, Envelope>()
  let bytes = 0
  let released = 0

  function get(key: string, now: number): OpenRollout {
    let rollout = open.get(key)
    if (!rollout) {
      const late = closed.has(key)
      rollout = {
        key,
        traces: new Set(),
        held: [],
        bytes: 0,
        count: 0,
        first_at: now,
        last_at: now,
        rooted: false,
        ended: false,
        late,
        due: false,
      }
      open.set(key, rollout)
    }
    return rollout
  }

  function add(rollout: OpenRollout, batch: SpanBatch, indices: readonly number[], now: number): void {
    let size = 0
    for (const i of indices) size += payloadSize(batch, i)
    rollout.bytes += size
    rollout.count += indices.length
    rollout.last_at = now
    rollout.due = false
    if (!rollout.held) return
    rollout.held.push(copied(batch, indices, size))
    hold(rollout, size)
  }

  function copied(batch: SpanBatch, indices: readonly number[], size: number): Held {
    const bytes = Buffer.allocUnsafe(size)
    let end = 0
    return {
      signal: batch.signal,
      bytes,
      ends: indices.map((i) => (end = copyPayload(batch, i, bytes, end))),
      resources: indices.map((i) => kept(resource(batch, i))),
      scopes: indices.map((i) => kept(scope(batch, i))),
    }
  }

  /** Envelopes repeat from request to request; one copy serves all, and no request is kept alive by it. */
  function kept(envelope: Envelope): Envelope {
    let copy = copies.get(envelope)
    if (copy) return copy
    const id = envelope.bytes.toString('latin1')
    copy = envelopes.get(id)
    if (!copy) {
      if (envelopes.size >= ENVELOPES) envelopes.clear()
      envelopes.set(id, (copy = { ...envelope, bytes: Buffer.from(envelope.bytes) }))
    }
    copies.set(envelope, copy)
    return copy
  }

  /** The one that began to hold first goes first. */
  function release(): void {
    const [oldest] = holding
    if (!oldest) return
    drop(oldest)
    oldest.held = null
    released++
  }

  function hold(rollout: OpenRollout, more: number): void {
    holding.add(rollout)
    bytes += more
    while (bytes > limits.memory && holding.size > 0) release()
  }

  function drop(rollout: OpenRollout): void {
    if (holding.delete(rollout)) bytes -= rollout.bytes
  }

  /** One rollout of two; `first` began earlier. */
  function join(first: OpenRollout, second: OpenRollout, key: string): OpenRollout {
    drop(second)
    return {
      key,
      traces: new Set([...first.traces, ...second.traces]),
      held: first.held && second.held && [...first.held, ...second.held],
      bytes: first.bytes + second.bytes,
      count: first.count + second.count,
      first_at: Math.min(first.first_at, second.first_at),
      last_at: Math.max(first.last_at, second.last_at),
      rooted: first.rooted || second.rooted,
      ended: first.ended || second.ended,
      late: first.late,
      due: false,
    }
  }

  function put(rollout: OpenRollout): void {
    open.set(rollout.key, rollout)
    if (rollout.held) hold(rollout, rollout.bytes)
  }

  function take(rollout: OpenRollout): void {
    open.delete(rollout.key)
    drop(rollout)
    closed.add(rollout.key)
    if (closed.size > REMEMBERED) closed.delete(closed.values().next().value!)
  }

  function takeIf(reasonOf: (rollout: OpenRollout) => ClosedBy | null) {
    const taken: { rollout: OpenRollout; closed_by: ClosedBy }[] = []
    for (const rollout of open.values()) {
      const closed_by = reasonOf(rollout)
      if (closed_by) taken.push({ rollout, closed_by })
    }
    for (const { rollout } of taken) take(rollout)
    return taken
  }

  return {
    get size() {
      return open.size
    },
    get bytes() {
      return bytes
    },
    get released() {
      return released
    },
    has: (key) => open.has(key),
    get,
    add,
    letGo(rollout) {
      drop(rollout)
      rollout.held = null
    },
    rename(from, to) {
      // Its root, say, may have come then and will not come again.
      if (closed.has(from)) closed.add(to)
      const old = open.get(from)
      if (!old) return
      drop(old)
      open.delete(from)
      const into = open.get(to)
      put(into ? join(old, into, to) : { ...old, key: to })
    },
    takeDue: (now) => takeIf((rollout) => due(rollout, now, limits)),
    takeFinished: () =>
      takeIf((rollout) => (rollout.ended ? 'end' : rollout.late || rollout.due ? 'late' : rollout.rooted ? 'root' : null)),
    restore(rollout) {
      const newer = open.get(rollout.key)
      put(newer ? join(rollout, newer, rollout.key) : rollout)
    },
  }
}

function due(rollout: OpenRollout, now: number, limits: Limits): ClosedBy | null {
  if (rollout.ended) return 'end'
  if (rollout.due) return 'late'
  if (rollout.count >= limits.max_spans) return 'max_spans'
  if (rollout.bytes >= limits.max_bytes) return 'max_bytes'
  if (rollout.late && now - rollout.last_at >= limits.root_grace) return 'late'
  if (rollout.rooted && now - rollout.last_at >= limits.root_grace) return 'root'
  if (now - rollout.last_at >= limits.idle_timeout) return 'idle'
  if (now - rollout.first_at >= limits.max_age) return 'max_age'
  return null
}

/** The items that are held for a rollout, each span id and each identical log record once. */
export function heldItems(held: readonly Held[]): Item[] {
  const seen = new Set<string>()
  const items: Item[] = []
  for (const { signal, bytes, ends, resources, scopes } of held) {
    for (const [n, end] of ends.entries()) {
      const payload = bytes.subarray(n === 0 ? 0 : ends[n - 1], end)
      const item = (signal === 'traces' ? readSpan : readLog)(payload, resources[n]!, scopes[n]!)
      const id = item.signal === 'span' ? item.trace_id + item.span_id : payload.toString('latin1')
      if (seen.has(id)) continue
      seen.add(id)
      items.push(item)
    }
  }
  return items
}
