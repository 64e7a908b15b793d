// One call. Of small requests there are so many that new objects would be what costs most: whoever is done with one clears it for the next.

import type { Copy, Settled, Taker } from '../small_requests.ts'
import type { Body } from './body.ts'
import type { GrpcCall, GrpcMethod } from './grpc.ts'
import type { Recipient } from './output.ts'

export interface Call extends GrpcCall, Recipient, Body {
  id: number
  method: GrpcMethod
  copy: Copy | undefined
  taker: Taker | undefined
  encoding: string
  contentLength: number | undefined
  headerBytes: number
  metadata: GrpcCall['metadata']
  deadline: number | undefined
  /** Settles when it is known who calls; undefined when that is known. */
  authenticated: Promise<void> | undefined
  stage: 'receiving' | 'running' | 'answering'
  /** When this stage began. */
  since: number
  cancelled: boolean
  /** Neither its method got it, nor may its client not call. */
  untaken: boolean
  /** How much of it is in the hands of its method, and whether that does not know of the call. */
  handled: number
  isUnknown: boolean
  /** Ends it. */
  readonly settled: Settled
  /** The next that waits to be used again, where this one does. */
  spare: Call | undefined
}

/**
 * @param now not an integer: what begins as one is no place for milliseconds
 * @param settle ends it
 */
export function newCall(method: GrpcMethod, now: number, settle: (call: Call, answer: Uint8Array, error: unknown) => void): Call {
  const call: Call = {
    id: 0,
    method,
    copy: undefined,
    taker: undefined,
    encoding: '',
    contentLength: undefined,
    headerBytes: 0,
    metadata: () => undefined,
    deadline: undefined,
    authenticated: undefined,
    stage: 'receiving',
    since: now,
    cancelled: false,
    untaken: true,
    handled: 0,
    isUnknown: false,
    prefix: 0,
    compressed: 0,
    length: 0,
    slot: undefined,
    got: 0,
    credit: 0,
    settled: (answer, error) => settle(call, answer, error),
    spare: undefined,
  }
  return call
}

/** As it was when it was new, to be used again before `spare`. */
export function cleared(call: Call, spare: Call | undefined): Call {
  call.spare = spare
  call.stage = 'receiving'
  call.cancelled = false
  call.untaken = true
  call.isUnknown = false
  call.prefix = 0
  call.length = 0
  call.got = 0
  call.credit = 0
  return call
}
