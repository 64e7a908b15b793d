// Rollouts that still get spans: what arrived for each, and which are due to be closed.
// The latest spans are held; a rollout of which some are gone is read back from storage.

import TinyQueue from 'tinyqueue'

import type { ItemReader } from './item_reader.ts'
import type { KnownTrace } from './known_traces.ts'
import { latest } from './latest.ts'
import { due, notDueBefore, type ClosedBy, type Held, type Limits, type OpenRollout, type Watched } from './open_rollout.ts'
import { payloadSize, type RawItem, type SpanBatch } from './span_batch.ts'
import type { Items, Run, SpanMemory } from './span_memory.ts'

export interface Taken {
  readonly rollout: OpenRollout
  readonly closed_by: ClosedBy
}

interface Look {
  readonly time: number
  readonly rollout: Watched
}

export interface OpenRollouts {
  readonly size: number
  /** Of all their spans, held or not. */
  readonly bytes: number
  /** Rollouts whose spans were let go for want of memory, ever. */
  readonly released: number
  has(key: string): boolean
  find(key: string): Watched | undefined
  /** The rollout of this key, opened if need be. */
  get(key: string, now: number): Watched
  /** The rollout to which spans of this trace were last added that named none; undefined where that is not known, or it is open no longer. */
  ofTrace(trace: KnownTrace): Watched | undefined
  /** Such spans are about to be added. */
  addTrace(rollout: Watched, trace: KnownTrace): void
  /** What ofTrace() knows may be wrong from now on. */
  forgetTraces(): void
  /** Adds items of one batch, whose rows are all in `runs`, to a rollout. */
  add(rollout: OpenRollout, batch: SpanBatch, runs: readonly Run[], items: Items, now: number): void
  /** To be told when what is known of a rollout has changed: it may be due earlier than that. */
  lookSoon(rollout: OpenRollout): void
  /** Frees what is held of a rollout: everything of it will be read back. */
  letGo(rollout: OpenRollout): void
  /** Joins the rollout of one key, if there is one, into that of another. */
  rename(from: string, to: string): void
  /** Takes out every rollout that is due, with the reason. */
  takeDue(now: number): Taken[]
  /** Takes out what can be closed early at shutdown: those that ended or whose root did. */
  takeFinished(): Taken[]
  /** Puts a taken rollout back, joined with what has arrived for it since. */
  restore(rollout: OpenRollout): void
}

/** A key that was closed is remembered so long; beyond that, storage is asked. */
const REMEMBERED = 50_000
const NOTHING: Held = { items: [], chains: [] }

export function openRollouts(limits: Limits, memory: SpanMemory): OpenRollouts {
  const open = new Map<string, Watched>()
  const closed = latest<true>(REMEMBERED)
  const looks = new TinyQueue<Look>([], (a, b) => a.time - b.time)
  /** Those that need not wait for the clock. */
  const soon = new Set<OpenRollout>()
  /** All that are open point here. */
  const home = {}
  /** What was found of traces before is forgotten. */
  let since = 0
  let released = 0

  function get(key: string, now: number): Watched {
    let rollout = open.get(key)
    if (!rollout) {
      const late = closed.has(key)
      rollout = {
        key,
        traces: new Set(),
        held: NOTHING,
        bytes: 0,
        count: 0,
        first_at: now,
        last_at: now,
        rooted: false,
        ended: false,
        late,
        due: false,
        doubtful: false,
        look_at: 0,
        home,
        group: 0,
      }
      put(rollout, now)
    }
    return rollout
  }

  function ofTrace({ rollout, found }: KnownTrace): Watched | undefined {
    return rollout !== undefined && rollout.home === home && found === since ? rollout : undefined
  }

  function addTrace(rollout: Watched, trace: KnownTrace): void {
    rollout.traces.add(trace.id)
    trace.rollout = rollout
    trace.found = since
  }

  function add(rollout: OpenRollout, batch: SpanBatch, runs: readonly Run[], items: Items, now: number): void {
    const { order, from, to } = items
    for (let n = from; n < to; n++) rollout.bytes += payloadSize(batch, order[n]!)
    rollout.count += to - from
    rollout.last_at = now
    rollout.due = false
    if (rollout.count >= limits.max_spans || rollout.bytes >= limits.max_bytes) soon.add(rollout)
    if (rollout.held && !hold(rollout, rollout.held, runs, items)) release(rollout)
  }

  function hold(rollout: OpenRollout, { items, chains }: Held, runs: readonly Run[], added: Items): boolean {
    let chain = chains.at(-1)
    if (!chain) {
      chain = memory.begin()
      rollout.held = { items, chains: [chain] }
    }
    return memory.add(chain, runs, added)
  }

  function release(rollout: OpenRollout): void {
    rollout.held = null
    released++
  }

  /** One rollout of two; `first` began earlier. */
  function join(first: OpenRollout, second: OpenRollout, key: string): Watched {
    gone(first)
    gone(second)
    return {
      key,
      traces: new Set([...first.traces, ...second.traces]),
      held: first.held && second.held && both(first.held, second.held),
      bytes: first.bytes + second.bytes,
      count: first.count + second.count,
      first_at: Math.min(first.first_at, second.first_at),
      last_at: Math.max(first.last_at, second.last_at),
      rooted: first.rooted || second.rooted,
      ended: first.ended || second.ended,
      late: first.late,
      due: false,
      doubtful: first.doubtful || second.doubtful,
      look_at: 0,
      home,
      group: 0,
    }
  }

  /** Whoever remembers it has to look for another. */
  function gone(rollout: Partial<Watched>): void {
    rollout.home = null
  }

  function put(rollout: Watched, now: number): void {
    open.set(rollout.key, rollout)
    lookLater(rollout, now)
  }

  /** In the place of others, it may have become due meanwhile. */
  function putBack(rollout: Watched): void {
    put(rollout, rollout.last_at)
    soon.add(rollout)
  }

  function lookLater(rollout: Watched, now: number): void {
    rollout.look_at = notDueBefore(rollout, now, limits)
    looks.push({ time: rollout.look_at, rollout })
  }

  /** What is taken is another object: the clock may know the one that was open for a while yet, and would keep its bytes. */
  function take(rollout: OpenRollout): OpenRollout {
    open.delete(rollout.key)
    gone(rollout)
    closed.set(rollout.key, true)
    const held = rollout.held && lifted(rollout.held)
    if (rollout.held && !held) released++
    return { ...rollout, held }
  }

  /** Out of the memory that is written over before it is read. Null where it was already. */
  function lifted({ items, chains }: Held): Held | null {
    const parts = chains.map(memory.read)
    return parts.includes(null) ? null : { items: [...items, ...(parts as RawItem[][]).flat()], chains: [] }
  }

  function takeDue(now: number): Taken[] {
    const looked = new Set<OpenRollout>(soon)
    soon.clear()
    while (looks.length > 0 && looks.peek()!.time <= now) {
      const { rollout } = looks.pop()!
      // It may have been looked at since, and is to be again.
      if (rollout.look_at <= now) looked.add(rollout)
    }
    const taken = takeIf(looked, (rollout) => due(rollout, now, limits))
    for (const rollout of looked) {
      const watched = open.get(rollout.key)
      if (watched === rollout) lookLater(watched, now)
    }
    return taken
  }

  function takeIf(looked: Iterable<OpenRollout>, reasonOf: (rollout: OpenRollout) => ClosedBy | null): Taken[] {
    const taken: Taken[] = []
    for (const rollout of looked) {
      const closed_by = open.get(rollout.key) === rollout ? reasonOf(rollout) : null
      if (!closed_by) continue
      taken.push({ rollout: take(rollout), closed_by })
    }
    return taken
  }

  return {
    get size() {
      return open.size
    },
    get bytes() {
      let sum = 0
      for (const { bytes } of open.values()) sum += bytes
      return sum
    },
    get released() {
      return released
    },
    has: (key) => open.has(key),
    find: (key) => open.get(key),
    get,
    ofTrace,
    addTrace,
    forgetTraces: () => void since++,
    add,
    lookSoon: (rollout) => void soon.add(rollout),
    letGo(rollout) {
      rollout.held = null
      rollout.doubtful = true
    },
    rename(from, to) {
      // Its root, say, may have come then and will not come again.
      if (closed.has(from)) closed.set(to, true)
      const old = open.get(from)
      if (!old) return
      open.delete(from)
      const into = open.get(to)
      if (into) return putBack(join(old, into, to))
      // Nothing has changed but its key: it is due when it was.
      old.key = to
      open.set(to, old)
    },
    takeDue,
    takeFinished: () =>
      takeIf(open.values(), (rollout) => (rollout.ended ? 'end' : rollout.late || rollout.due ? 'late' : rollout.rooted ? 'root' : null)),
    restore(taken) {
      const rollout = { ...taken, doubtful: true }
      const newer = open.get(rollout.key)
      putBack(newer ? join(rollout, newer, rollout.key) : { ...rollout, look_at: 0, home, group: 0 })
    },
  }
}

const both = (first: Held, second: Held): Held => ({
  items: [...first.items, ...second.items],
  chains: [...first.chains, ...second.chains],
})

/** The items that are held for rollouts that were taken out, each identical log record once; each is read when it is asked for. */
export function* heldItems(parts: readonly Held[], read: ItemReader): Generator<ReturnType<ItemReader>> {
  const seen = new Set<string>()
  for (const raw of parts.flatMap(({ items }) => items)) {
    if (raw.signal === 'logs') {
      const record = raw.payload.toString('latin1')
      if (seen.has(record)) continue
      seen.add(record)
    }
    yield read(raw)
  }
}
