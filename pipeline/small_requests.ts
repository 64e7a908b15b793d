// Small requests that come in one turn of the event loop go on as one: what a pipeline costs for each request is then paid once. Their bytes
// are copied one after the other, so that nothing need be kept of a request but where it ends, and whom to tell.

import { scanJoined } from '../data/joined_requests.ts'
import { copyBytes } from '../data/shared_memory.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import type { Lease } from './admission.ts'
import { createPool } from './pool.ts'

/** Of a larger one, copying its bytes costs more than what is saved. */
const SMALL_BYTES = 16 << 10
/** Requests of several turns share a slab. Together they stay small enough for whoever they are forwarded to. */
const SLAB_BYTES = 1 << 20
const MOST_BYTES = 32 << 20
const GROUPS_PER_TRIM = 4_096

/**
 * Takes a copy of the request that stands from `start` to `end`, and calls `settled` later, once. False where it does not: the request
 * then has to wait as it is.
 */
export type Copy = (bytes: Buffer, start: number, end: number, settled: Settled) => boolean
/** Takes a request that may be read until `settled` was called, which it is once. */
export type Taker = (request: Buffer, settled: Settled) => void
/** With the answer's bytes, which do not count where there is an error. */
export type Settled = (answer: Uint8Array, error?: unknown) => void

interface Slab {
  readonly memory: Buffer
  used: number
  /** Groups that lie here and are not settled. */
  groups: number
}

interface Group {
  readonly slab: Slab
  readonly start: number
  /** Where each request ends, from `start`. */
  readonly ends: number[]
  readonly members: Settled[]
}

export interface SmallRequests {
  readonly signal: SpanBatch['signal']
  /** Charged for what waits here. */
  readonly lease: Lease
  /** What a request is told when all of it was taken. */
  readonly success: Uint8Array
  /** Takes a group that has no fault. False where it is to be seen which of its requests is at fault; throws where none of them is. */
  together(batch: SpanBatch, requests: number): Promise<boolean>
  readonly alone: Taker
}

/** No copy is made of a request that is not small, or where there is no room. */
export function smallRequests({ signal, lease, success, together, alone }: SmallRequests): Copy {
  const pool = createPool(MOST_BYTES, () => {})
  let groups = 0
  let slab: Slab | undefined
  let open: Group | undefined

  function take(bytes: Buffer, start: number, end: number, settled: Settled): boolean {
    const size = end - start
    if (size > SMALL_BYTES || !lease.fits(size)) return false
    if (slab && slab.used + size > SLAB_BYTES) leaveSlab()
    open ??= begin()
    if (!open) return false
    lease.add(size)
    copyBytes(bytes, start, end, open.slab.memory, open.slab.used)
    open.slab.used += size
    open.ends.push(open.slab.used - open.start)
    open.members.push(settled)
    return true
  }

  function leaveSlab(): void {
    if (open) close(open)
    slab = undefined
  }

  function begin(): Group | undefined {
    if (++groups % GROUPS_PER_TRIM === 0) pool.trim()
    slab ??= newSlab()
    if (!slab) return undefined
    slab.groups++
    const group: Group = { slab, start: slab.used, ends: [], members: [] }
    setImmediate(close, group)
    return group
  }

  function newSlab(): Slab | undefined {
    return pool.used() + SLAB_BYTES > MOST_BYTES ? undefined : { memory: pool.take(SLAB_BYTES), used: 0, groups: 0 }
  }

  /** Hands them on; after that nothing joins them. */
  function close(group: Group): void {
    if (open !== group) return
    open = undefined
    const { slab, start, ends, members } = group
    const body = slab.memory.subarray(start, start + ends.at(-1)!)
    takeJoined(body, ends, members.length).then(
      (taken) => (taken ? settle(group, undefined) : separately(group, body)),
      (error: unknown) => settle(group, error),
    )
  }

  async function takeJoined(body: Buffer, ends: readonly number[], count: number): Promise<boolean> {
    const batch = scanJoined(signal, body, ends)
    return batch !== undefined && together(batch, count)
  }

  function settle(group: Group, error: unknown): void {
    for (const settled of group.members) settled(success, error)
    release(group)
  }

  function separately(group: Group, body: Buffer): void {
    const { ends, members } = group
    let left = members.length
    members.forEach((settled, i) =>
      alone(body.subarray(ends[i - 1] ?? 0, ends[i]), (answer, error) => {
        settled(answer, error)
        if (--left === 0) release(group)
      }),
    )
  }

  function release({ slab: its, ends }: Group): void {
    lease.add(-ends.at(-1)!)
    if (--its.groups > 0) return
    its.used = 0
    if (its !== slab) pool.give(its.memory)
  }

  return take
}
