// Requests that come in one turn of the event loop go on together: what a pipeline costs each time it is called, it then costs once. Small
// ones have been made one before (small_requests.ts).

import type { SpanBatch } from '../data/span_batch.ts'
import { Refused } from './component.ts'

/** Together they stay small enough for whoever they are forwarded to. A larger request goes on alone. */
const MOST_BYTES = 1 << 20

interface Group {
  readonly batches: SpanBatch[]
  /** Of each batch, in the same order. */
  readonly told: Told[]
  bytes: number
}

/** Is called once: with what went wrong, if anything did. */
export type Told = (error?: unknown) => void

/**
 * Each request is told when its group is taken. What goes wrong with one of them, unless it is that there is no room, is its own affair: each
 * is tried alone.
 */
export function gathering(next: (batches: readonly SpanBatch[]) => Promise<void>): (batch: SpanBatch, told: Told) => void {
  let open: Group | undefined

  function begin(): Group {
    const group: Group = { batches: [], told: [], bytes: 0 }
    setImmediate(close, group)
    return group
  }

  /** Hands them on; after that nothing joins them. */
  function close(group: Group): void {
    if (open !== group) return
    open = undefined
    next(group.batches).then(
      () => group.told.forEach((told) => told()),
      (error: unknown) => failed(group, error),
    )
  }

  function failed({ batches, told }: Group, error: unknown): void {
    if (told.length === 1 || error instanceof Refused) told.forEach((one) => one(error))
    else batches.forEach((batch, i) => pass([batch], told[i]!))
  }

  const pass = (batches: readonly SpanBatch[], told: Told): void => void next(batches).then(() => told(), told)

  return (batch, told) => {
    const size = batch.body.length
    if (size > MOST_BYTES) return pass([batch], told)
    if (open && open.bytes + size > MOST_BYTES) close(open)
    const group = (open ??= begin())
    group.batches.push(batch)
    group.bytes += size
    group.told.push(told)
  }
}
