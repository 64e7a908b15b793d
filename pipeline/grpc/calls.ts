// The calls of one connection, as gRPC over HTTP/2 has them: a request's headers, one message with its five-byte prefix, the
// method's run, and the answer. Whether the client's frames are legal HTTP/2 is connection.ts's business.

import { CODE, frame, FLAG, rstStream, TYPE, type Code } from './frames.ts'
import { STATUS, type GrpcCall, type GrpcLimits, type GrpcMethod, type GrpcServerOptions, type GrpcStatus, type Limit } from './grpc.ts'
import { Failure, type Gunzip } from './gunzip.ts'
import { encodeField, type Field } from './hpack.ts'
import type { Output, Recipient } from './output.ts'
import type { Pool } from './pool.ts'
import { readRequest, readTimeout } from './request.ts'

/** What all connections of a server share. */
export interface Service extends Pick<GrpcServerOptions, 'methods' | 'admit' | 'errorOf' | 'onError'> {
  readonly limits: GrpcLimits
  readonly pool: Pool
  readonly gunzip: Gunzip
  /** So many bytes are now in the hands of a method (negative: no longer). */
  handling(bytes: number): void
  /** Methods hold so much that clients are to wait. */
  congested(): boolean
  limited(limit: Limit): void
}

export interface Call extends GrpcCall, Recipient {
  readonly method: GrpcMethod
  readonly encoding: string | undefined
  /** By the header content-length, where there is one. */
  readonly announced: number | undefined
  stage: 'receiving' | 'running' | 'answering'
  /** When this stage began. */
  since: number
  cancelled: boolean
  /** How much of the prefix has come, and what it says. */
  prefix: number
  compressed: number
  length: number
  /** Where the message goes, once its length is known. */
  slot: Buffer | undefined
  got: number
}

export interface Calls {
  /** `fields` is undefined when there were too many. */
  open(id: number, fields: readonly Field[] | undefined, endStream: boolean, now: number): void
  /** Takes bytes of the body. False: the call is over, whatever else comes of it. */
  data(call: Call, bytes: Buffer, start: number, end: number): boolean
  /** The body is complete. */
  end(call: Call, now: number): void
  /** The client no longer wants it. */
  drop(call: Call): void
  /** Ends what takes too long. */
  expire(call: Call, now: number): void
}

const PREFIX = 5
const EMPTY = Buffer.alloc(0)
/** A body that is slower than this for too long is cut off, and one of an announced length gets memory as it comes when it is short. */
const BYTES_PER_MS = 16
const FIRST_GRANT = 16 << 10

const CONTENT_TYPE = /^application\/grpc(?:$|[+;])/i
const UNSUPPORTED_MEDIA = encodeField(':status', '415')
const ENCODINGS = encodeField('grpc-accept-encoding', 'identity,gzip')

export function createCalls(
  service: Service,
  output: Output,
  streams: Map<number, Call>,
  reset: (id: number, code: Code) => void,
  removed: () => void,
): Calls {
  const { limits, pool } = service

  function open(id: number, fields: readonly Field[] | undefined, endStream: boolean, now: number): void {
    const refuse = (code: number, message: string) => refuseStream(id, endStream, { code, message })
    if (!fields) {
      service.limited('header_bytes')
      return refuse(STATUS.resourceExhausted, `headers of more than ${limits.maxHeaderBytes} bytes`)
    }
    const request = readRequest(fields)
    if (!request) return reset(id, CODE.protocolError)
    if (!CONTENT_TYPE.test(request.contentType)) {
      output.write(frame(TYPE.headers, FLAG.endHeaders | FLAG.endStream, id, UNSUPPORTED_MEDIA))
      if (!endStream) output.write(rstStream(id, CODE.noError))
      return
    }
    const method = service.methods.get(request.path)
    if (!method || request.method !== 'POST') return refuse(STATUS.unimplemented, `unknown method ${request.method} ${request.path}`)
    const timeout = request.timeout === undefined ? Infinity : readTimeout(request.timeout)
    if (timeout === undefined) return refuse(STATUS.internal, `grpc-timeout is no time: ${request.timeout}`)
    const call: Call = {
      id,
      method,
      encoding: request.encoding,
      announced: request.contentLength,
      metadata: (name) => valueOf(fields, name),
      deadline: timeout === Infinity ? undefined : now + timeout,
      stage: 'receiving',
      since: now,
      cancelled: false,
      prefix: 0,
      compressed: 0,
      length: 0,
      slot: undefined,
      got: 0,
      credit: 0,
    }
    streams.set(id, call)
    if (endStream) end(call, now)
  }

  function data(call: Call, bytes: Buffer, from: number, to: number): boolean {
    let start = from
    while (call.prefix < PREFIX && start < to) {
      const byte = bytes[start++]!
      if (call.prefix === 0) call.compressed = byte
      else call.length = call.length * 256 + byte
      if (++call.prefix === PREFIX && !admit(call)) return false
    }
    if (start === to) return true
    const got = call.got + to - start
    if (got > call.length) return fail(call, STATUS.unimplemented, 'more than one message in a unary call')
    if (got > call.slot!.length && !enlarge(call, got)) return outOfMemory(call)
    bytes.copy(call.slot!, call.got, start, to)
    call.got = got
    return true
  }

  /** The message's length is known: may it come? */
  function admit(call: Call): boolean {
    const { compressed, encoding = 'identity', length } = call
    if (compressed > 1) return fail(call, STATUS.internal, `no message begins with ${compressed}`)
    if (compressed === 1 && encoding === 'identity') return fail(call, STATUS.internal, 'a compressed message without grpc-encoding')
    if (compressed === 1 && encoding !== 'gzip') {
      return fail(call, STATUS.unimplemented, `grpc-encoding ${encoding} is not supported`, ENCODINGS)
    }
    if (length > limits.maxMessageBytes) {
      service.limited('message_bytes')
      return fail(call, STATUS.resourceExhausted, `a message of ${length} bytes, ${limits.maxMessageBytes} are allowed`)
    }
    try {
      service.admit?.(call, length)
    } catch (error) {
      return refused(call, service.errorOf(error))
    }
    if (length === 0) return true
    // Whoever announces much and sends little must not take memory from the others: past half of it, only what has come counts.
    call.slot = pool.take(pool.used() + length <= limits.maxBytesInFlight / 2 ? length : Math.min(length, FIRST_GRANT))
    return call.slot !== undefined || outOfMemory(call)
  }

  function enlarge(call: Call, needed: number): boolean {
    const small = call.slot!
    const large = pool.take(Math.min(call.length, Math.max(needed, 2 * small.length)))
    if (!large) return false
    small.copy(large, 0, 0, call.got)
    pool.give(small)
    call.slot = large
    return true
  }

  function outOfMemory(call: Call): false {
    service.limited('bytes_in_flight')
    return fail(call, STATUS.unavailable, 'no memory for more messages at the moment')
  }

  function end(call: Call, now: number): void {
    const { prefix, got, length, announced } = call
    if (announced !== undefined && announced !== prefix + got) {
      drop(call)
      return reset(call.id, CODE.protocolError)
    }
    if (prefix === 0) return close(call, STATUS.unimplemented, 'a unary call without a message')
    if (prefix < PREFIX || got < length) {
      return close(call, STATUS.internal, `the message is cut short after ${got} of ${length} bytes`)
    }
    call.stage = 'running'
    call.since = now
    run(call).catch(service.onError)
  }

  /** Refuses a call whose client has said all it has to say. */
  function close(call: Call, code: number, message: string): void {
    output.refuse(call.id, { code, message })
    drop(call)
  }

  async function run(call: Call): Promise<void> {
    const held = call.slot?.length ?? 0
    service.handling(held)
    try {
      const answer = call.compressed === 1 ? await runUnpacked(call) : await call.method(message(call), call)
      if (!call.cancelled && !output.answer(call, answer)) call.stage = 'answering'
    } catch (error) {
      if (!call.cancelled) output.refuse(call.id, error instanceof Failure ? error : service.errorOf(error))
    } finally {
      service.handling(-held)
      release(call)
      if (call.stage === 'answering') call.since = performance.now()
      else remove(call)
    }
  }

  async function runUnpacked(call: Call): Promise<Uint8Array> {
    const { unpacked, reserved } = await service.gunzip(message(call))
    release(call)
    service.handling(reserved)
    try {
      return call.cancelled ? EMPTY : await call.method(unpacked, call)
    } finally {
      service.handling(-reserved)
      pool.release(reserved)
    }
  }

  function drop(call: Call): void {
    call.cancelled = true
    if (call.stage === 'running') return // its method still reads the message
    output.forget(call)
    release(call)
    remove(call)
  }

  function expire(call: Call, now: number): void {
    const age = now - call.since
    if (call.stage === 'answering') {
      if (age <= limits.stallTimeoutMs) return
      service.limited('answers_unread')
      drop(call)
      reset(call.id, CODE.cancel)
    } else if (call.deadline !== undefined && now >= call.deadline) {
      if (!call.cancelled) fail(call, STATUS.deadlineExceeded, 'the deadline has passed')
    } else if (call.stage === 'receiving') {
      if (service.congested())
        call.since = now // it is we who let the client wait
      else if (age > limits.bodyTimeoutMs && call.got < age * BYTES_PER_MS) {
        service.limited('body_timeout')
        fail(call, STATUS.deadlineExceeded, `only ${call.got} bytes of the request came in ${Math.round(age / 1_000)} seconds`)
      }
    }
  }

  function fail(call: Call, code: number, message: string, extra?: Buffer): false {
    return refused(call, { code, message }, extra)
  }

  function refused(call: Call, status: GrpcStatus, extra?: Buffer): false {
    if (call.stage === 'running') output.refuse(call.id, status, extra)
    else refuseStream(call.id, false, status, extra)
    drop(call)
    return false
  }

  /** A client that is still sending is told to stop, which is no error. */
  function refuseStream(id: number, endStream: boolean, status: GrpcStatus, extra?: Buffer): void {
    output.refuse(id, status, extra)
    if (!endStream) output.write(rstStream(id, CODE.noError))
  }

  function release(call: Call): void {
    if (call.slot) pool.give(call.slot)
    call.slot = undefined
  }

  function remove(call: Call): void {
    if (streams.delete(call.id)) removed()
  }

  return { open, data, end, drop, expire }
}

const message = ({ slot, length }: Call): Buffer => slot?.subarray(0, length) ?? EMPTY

function valueOf(fields: readonly Field[], name: string): string | undefined {
  const values = fields.filter((field) => field.name === name).map(({ value }) => value)
  return values.length === 0 ? undefined : values.join(',')
}
