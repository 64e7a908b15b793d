// The calls of one connection, as gRPC over HTTP/2 has them: a request's headers, one message, the method's run, and the answer.
// Whether the client's frames are legal HTTP/2 is connection.ts's business.

import { Refused } from '../component.ts'
import type { Pool } from '../pool.ts'
import type { Copy, Taker } from '../small_requests.ts'
import { createBodies, isOneMessage, PREFIX } from './body.ts'
import { cleared, newCall, type Call } from './call.ts'
import { CODE, type Code } from './frames.ts'
import { Failure, STATUS, type GrpcLimits, type GrpcMethod, type GrpcServerOptions, type GrpcStatus } from './grpc.ts'
import type { Gunzip } from './gunzip.ts'
import type { Field } from './hpack.ts'
import type { Output } from './output.ts'
import { createRequestReader, type Request } from './request.ts'
import type { Streams } from './streams.ts'

/** What all connections of a server share. */
export interface Service extends Pick<
  GrpcServerOptions,
  'methods' | 'copies' | 'takers' | 'authenticate' | 'errorOf' | 'untaken' | 'onError' | 'limited'
> {
  readonly limits: GrpcLimits
  readonly pool: Pool
  readonly gunzip: Gunzip
  /** So many bytes are now in the hands of a method (negative: no longer). */
  handling(bytes: number): void
  /** Methods hold so much that clients are to wait. */
  congested(): boolean
}

export interface Calls {
  /** `fields` is undefined when there were too many. */
  open(id: number, fields: readonly Field[] | undefined, endStream: boolean, now: number): void
  /** Takes the body where it comes in one piece, and its method makes a copy. False where that is not so. */
  whole(call: Call, bytes: Buffer, start: number, end: number, now: number): boolean
  /** Takes bytes of the body. */
  data(call: Call, bytes: Buffer, start: number, end: number): void
  /** The body is complete. */
  end(call: Call, now: number): void
  /** The client no longer wants it. */
  drop(call: Call): void
  /** Ends what takes too long. */
  expire(call: Call, now: number): void
}

/** A body that is slower than this for too long is cut off. */
const BYTES_PER_MS = 16
const EMPTY = Buffer.alloc(0)

/** Whom a request goes to. */
interface Served {
  readonly request: Request
  readonly method: GrpcMethod
  readonly copy: Copy | undefined
  readonly taker: Taker | undefined
}

export function createCalls(
  service: Service,
  output: Output,
  streams: Streams,
  reset: (id: number, code: Code) => void,
  removed: (call: Call) => void,
): Calls {
  const { limits, pool, limited } = service
  const readRequest = createRequestReader()
  const bodies = createBodies(pool, limits, limited)
  /** The latest of those calls that their method did not know of, and that nobody keeps, therefore. */
  let spare: Call | undefined
  let served: Served | undefined

  function open(id: number, fields: readonly Field[] | undefined, endStream: boolean, now: number): void {
    try {
      if (!fields) {
        limited('header_bytes')
        throw new Failure(STATUS.resourceExhausted, `headers of more than ${limits.maxHeaderBytes} bytes`)
      }
      const request = readRequest(fields)
      if (!request) return reset(id, CODE.protocolError)
      if (!request.isGrpc) return output.refuseType(id, !endStream)
      const { method, copy, taker } = served?.request === request ? served : serve(request)
      const call = spare ?? newCall(method, now, settled)
      spare = call.spare
      call.id = id
      call.method = method
      call.copy = copy
      call.taker = taker
      call.encoding = request.encoding
      call.contentLength = request.contentLength
      call.headerBytes = request.bytes
      call.metadata = request.metadata
      call.deadline = request.timeout === undefined ? undefined : now + request.timeout
      call.since = now
      authenticate(call)
      hold(call)
      streams.add(call)
      if (endStream) end(call, now)
    } catch (error) {
      output.refuse(id, statusOf(error), !endStream)
    }
  }

  function serve(request: Request): Served {
    const { method: verb, path } = request
    const method = service.methods.get(path)
    if (!method || verb !== 'POST') throw new Failure(STATUS.unimplemented, `unknown method ${verb} ${path}`)
    return (served = { request, method, copy: service.copies?.get(path), taker: service.takers?.get(path) })
  }

  function authenticate(call: Call): void {
    try {
      call.authenticated = service.authenticate?.(call)
    } catch (error) {
      const { code, message, details } = service.errorOf(error)
      throw new Failure(code, message, details)
    }
    call.authenticated?.catch((error: unknown) => {
      call.untaken = false
      if (call.stage === 'receiving' && !call.cancelled) fail(call, service.errorOf(error), true)
    })
  }

  function hold(call: Call): void {
    try {
      pool.reserve(call.headerBytes)
    } catch (error) {
      service.untaken?.()
      throw error
    }
  }

  function whole(call: Call, bytes: Buffer, start: number, to: number, now: number): boolean {
    const { contentLength } = call
    if (call.prefix > 0 || !isOneMessage(bytes, start, to)) return false
    if (contentLength !== undefined && contentLength !== to - start) return false
    return copied(call, bytes, start + PREFIX, to, now)
  }

  function data(call: Call, bytes: Buffer, start: number, to: number): void {
    try {
      bodies.append(call, bytes, start, to)
    } catch (error) {
      fail(call, statusOf(error), true)
    }
  }

  function end(call: Call, now: number): void {
    try {
      if (!bodies.isWhole(call)) {
        drop(call)
        reset(call.id, CODE.protocolError)
      } else if (call.compressed === 0 && copied(call, call.slot ?? EMPTY, 0, call.length, now)) bodies.release(call)
      else {
        running(call, call.slot?.length ?? 0, now)
        if (call.taker && call.compressed === 0 && !call.authenticated) hand(call, call.taker)
        else start(call).then(call.settled, (error: unknown) => call.settled(EMPTY, error))
      }
    } catch (error) {
      fail(call, statusOf(error), false)
    }
  }

  function copied(call: Call, bytes: Buffer, start: number, to: number, now: number): boolean {
    const { copy, authenticated, settled } = call
    if (!copy || authenticated || !copy(bytes, start, to, settled)) return false
    call.isUnknown = true
    call.untaken = false
    running(call, to - start, now)
    return true
  }

  function running(call: Call, bytes: number, now: number): void {
    call.stage = 'running'
    call.since = now
    call.handled = bytes
    service.handling(bytes)
  }

  function settled(call: Call, answer: Uint8Array, error: unknown): void {
    try {
      if (!call.cancelled) reply(call, answer, error)
    } catch (mistake) {
      service.onError(mistake)
    } finally {
      service.handling(-call.handled)
      bodies.release(call)
      if (call.stage === 'answering') call.since = performance.now()
      else remove(call)
    }
    if (call.isUnknown && call.stage === 'running') spare = cleared(call, spare)
  }

  function reply(call: Call, answer: Uint8Array, error: unknown): void {
    if (error !== undefined) output.refuse(call.id, error instanceof Failure ? error : service.errorOf(error), false)
    else if (!output.answer(call, answer)) call.stage = 'answering'
  }

  function hand(call: Call, taker: Taker): void {
    call.isUnknown = true
    call.untaken = false
    taker(bodies.message(call), call.settled)
  }

  function start(call: Call): Promise<Uint8Array> {
    if (call.authenticated || call.compressed === 1) return runLater(call)
    try {
      return run(call, bodies.message(call))
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  function run(call: Call, message: Buffer): Promise<Uint8Array> {
    call.untaken = false
    return call.method(message, call)
  }

  async function runLater(call: Call): Promise<Uint8Array> {
    await call.authenticated
    if (call.cancelled) return EMPTY
    const message = bodies.message(call)
    return call.compressed === 1 ? runUnpacked(call, message) : run(call, message)
  }

  async function runUnpacked(call: Call, packed: Buffer): Promise<Uint8Array> {
    const { unpacked, reserved } = await service.gunzip(packed)
    bodies.release(call)
    service.handling(reserved)
    try {
      return call.cancelled ? EMPTY : await run(call, unpacked)
    } finally {
      service.handling(-reserved)
      pool.release(reserved)
    }
  }

  /** Of what is thrown while a request comes in. Anything else is our mistake, and costs the connection. */
  function statusOf(error: unknown): GrpcStatus {
    if (error instanceof Failure) return error
    if (error instanceof Refused) return service.errorOf(error)
    throw error
  }

  function fail(call: Call, status: GrpcStatus, sending: boolean): void {
    output.refuse(call.id, status, sending)
    drop(call)
  }

  function drop(call: Call): void {
    call.cancelled = true
    if (call.stage === 'running') return // its method still reads the message
    output.forget(call)
    bodies.release(call)
    remove(call)
  }

  function expire(call: Call, now: number): void {
    const age = now - call.since
    if (call.stage === 'answering') {
      if (age <= limits.stallTimeoutMs) return
      limited('answers_unread')
      drop(call)
      reset(call.id, CODE.cancel)
    } else if (call.deadline !== undefined && now >= call.deadline) {
      if (!call.cancelled) fail(call, { code: STATUS.deadlineExceeded, message: 'the deadline has passed' }, call.stage === 'receiving')
    } else if (call.stage === 'receiving') {
      if (service.congested())
        call.since = now // it is we who let the client wait
      else if (age > limits.bodyTimeoutMs && call.got < age * BYTES_PER_MS) {
        limited('body_timeout')
        const message = `only ${call.got} bytes of the request came in ${Math.round(age / 1_000)} seconds`
        fail(call, { code: STATUS.deadlineExceeded, message }, true)
      }
    }
  }

  function remove(call: Call): void {
    if (!streams.delete(call)) return
    pool.release(call.headerBytes)
    if (call.untaken) service.untaken?.()
    removed(call)
  }

  return { open, whole, data, end, drop, expire }
}
