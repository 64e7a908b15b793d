// Requests that come in one turn of the event loop go on together: what a pipeline costs each time it is called, it then costs once.

import type { SpanBatch } from '../data/span_batch.ts'
import { Refused } from './component.ts'

/** Together they stay small enough for whoever they are forwarded to. A larger request goes on alone. */
const MOST_BYTES = 1 << 20

interface Group {
  readonly batches: SpanBatch[]
  readonly settled: Settled[]
  bytes: number
}

/** Called without an error when a request was taken. If that throws, it is called again with what it threw: the others are told in any case. */
export type Settled = (error?: unknown) => void

/**
 * Each request is told when its group is taken. What goes wrong with one of them, unless it is that there is no room, is its own affair: each
 * is tried alone.
 */
export function gathering(next: (batches: readonly SpanBatch[]) => Promise<void>): (batch: SpanBatch, settled: Settled) => void {
  let open: Group | undefined

  function begin(): Group {
    const group: Group = { batches: [], settled: [], bytes: 0 }
    setImmediate(close, group)
    return group
  }

  /** Hands them on; after that nothing joins them. */
  function close(group: Group): void {
    if (open !== group) return
    open = undefined
    next(group.batches).then(
      () => group.settled.forEach((settled) => tell(settled)),
      (error: unknown) => failed(group, error),
    )
  }

  function failed({ batches, settled }: Group, error: unknown): void {
    if (batches.length === 1 || error instanceof Refused) settled.forEach((one) => tell(one, error))
    else settled.forEach((one, i) => alone(batches[i]!, one))
  }

  function alone(batch: SpanBatch, settled: Settled): void {
    next([batch]).then(
      () => tell(settled),
      (error: unknown) => tell(settled, error),
    )
  }

  return (batch, settled) => {
    const size = batch.body.length
    if (size > MOST_BYTES) return alone(batch, settled)
    if (open && open.bytes + size > MOST_BYTES) close(open)
    open ??= begin()
    open.batches.push(batch)
    open.settled.push(settled)
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
