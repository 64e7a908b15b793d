// Requests that come in one turn of the event loop go on together: what a pipeline costs each time it is called, it then costs once. Small
// ones are even made one batch: what a pipeline costs for each batch is then paid once, too.

import { joinBatches, joinedSize } from '../data/joined_batch.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { Refused } from './component.ts'
import { createPool } from './pool.ts'

/** Together they stay small enough for whoever they are forwarded to. A larger request goes on alone. */
const MOST_BYTES = 1 << 20
/** Of a larger one, copying its bytes costs more than what is saved. */
const SMALL_BYTES = 16 << 10
/** For batches that were made of small ones. */
const JOINED_BYTES = 32 << 20
const JOINS_PER_TRIM = 4_096

interface Group {
  readonly small: SpanBatch[]
  readonly large: SpanBatch[]
  readonly members: Member[]
  bytes: number
}

interface Member {
  readonly batch: SpanBatch
  readonly settled: Settled
}

/** Called without an error when a request was taken. If that throws, it is called again with what it threw: the others are told in any case. */
export type Settled = (error?: unknown) => void

/**
 * Each request is told when its group is taken. What goes wrong with one of them, unless it is that there is no room, is its own affair: each
 * is tried alone.
 */
export function gathering(next: (batches: readonly SpanBatch[]) => Promise<void>): (batch: SpanBatch, settled: Settled) => void {
  const pool = createPool(JOINED_BYTES, () => {})
  let open: Group | undefined
  let joins = 0

  function begin(): Group {
    const group: Group = { small: [], large: [], members: [], bytes: 0 }
    setImmediate(close, group)
    return group
  }

  /** Hands them on; after that nothing joins them. */
  function close(group: Group): void {
    if (open !== group) return
    open = undefined
    const { small, large, members } = group
    const memory = small.length > 1 ? room(joinedSize(small)) : undefined
    const batches = [...(memory ? [joinBatches(small, memory)] : small), ...large]
    next(batches)
      .finally(() => memory && pool.give(memory))
      .then(
        () => members.forEach(({ settled }) => tell(settled)),
        (error: unknown) => failed(members, error),
      )
  }

  /** Where there is none they go on as they are. */
  function room(size: number): Buffer | undefined {
    if (++joins % JOINS_PER_TRIM === 0) pool.trim()
    return pool.used() + 2 * size > JOINED_BYTES ? undefined : pool.take(size)
  }

  function failed(members: readonly Member[], error: unknown): void {
    if (members.length === 1 || error instanceof Refused) members.forEach(({ settled }) => tell(settled, error))
    else members.forEach(alone)
  }

  function alone({ batch, settled }: Member): void {
    next([batch]).then(
      () => tell(settled),
      (error: unknown) => tell(settled, error),
    )
  }

  return (batch, settled) => {
    const size = batch.body.length
    if (size > MOST_BYTES) return alone({ batch, settled })
    if (open && open.bytes + size > MOST_BYTES) close(open)
    open ??= begin()
    open.members.push({ batch, settled })
    ;(size <= SMALL_BYTES ? open.small : open.large).push(batch)
    open.bytes += size
  }
}

function tell(settled: Settled, error?: unknown): void {
  try {
    settled(error)
  } catch (thrown) {
    settled(thrown)
  }
}
