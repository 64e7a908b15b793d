// Requests that come in one turn of the event loop go on together: what a pipeline costs each time it is called, it then costs once.

import type { SpanBatch } from '../data/span_batch.ts'
import { Refused } from './component.ts'

/** Together they stay small enough for whoever they are forwarded to. A larger request goes on alone. */
const MOST_BYTES = 1 << 20

interface Group {
  readonly batches: SpanBatch[]
  bytes: number
  /** Hands them on; after that nothing joins them. */
  readonly go: () => void
  readonly taken: Promise<void>
}

/** Each request resolves when its group is taken. What goes wrong with one of them, unless it is that there is no room, is its own affair: each is tried alone. */
export function gathering(next: (batches: readonly SpanBatch[]) => Promise<void>): (batch: SpanBatch) => Promise<void> {
  let open: Group | undefined

  function begin(): Group {
    const batches: SpanBatch[] = []
    let go!: () => void
    const taken = new Promise<void>((resolve) => (go = () => resolve(next(batches))))
    const group = { batches, bytes: 0, go, taken }
    setImmediate(close, group)
    return group
  }

  function close(group: Group): void {
    if (open !== group) return
    open = undefined
    group.go()
  }

  return (batch) => {
    const size = batch.body.length
    if (size > MOST_BYTES) return next([batch])
    if (open && open.bytes + size > MOST_BYTES) close(open)
    const group = (open ??= begin())
    group.batches.push(batch)
    group.bytes += size
    return group.taken.catch((error: unknown) => {
      if (group.batches.length === 1 || error instanceof Refused) throw error
      return next([batch])
    })
  }
}
