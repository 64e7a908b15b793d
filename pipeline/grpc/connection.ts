// One client's connection: which frames are legal when (RFC 9113), flow control, limits, and how it ends.

import type { Duplex } from 'node:stream'

import { createAllowances } from './allowance.ts'
import type { Call } from './call.ts'
import { createCalls, type Service } from './calls.ts'
import {
  CODE,
  ConnectionError,
  createFrameReader,
  FLAG,
  frame,
  goAway,
  illegal,
  MAX_WINDOW,
  readSettings,
  rstStream,
  sized,
  TYPE,
  windowUpdate,
  type Code,
} from './frames.ts'
import type { Limit } from './grpc.ts'
import { createHeaderBlocks } from './header_blocks.ts'
import { createHpackDecoder } from './hpack.ts'
import { createInbound, WINDOW } from './inbound.ts'
import { createOutput } from './output.ts'
import { createGreeting, Http1, ourPreface } from './preface.ts'
import { createStreams } from './streams.ts'

export interface Connection {
  /** Takes what the client sent, in any pieces. The bytes are not kept. */
  receive(piece: Buffer): void
  calls(): number
  /** To be called a few times a second: ends what takes too long. */
  sweep(now: number): void
  /** Lets the client send more, if it was held back. */
  letSend(): void
  /** Takes no more calls and ends when those in flight are answered. */
  drain(): void
}

/** Headers may be so much larger than the limit, as they come, that their call is refused politely and the connection lives on. */
const BLOCK_EXCESS = 4
/** How long a client gets to read why its connection ends, and to send what it sent before it knew that we drain. */
const LINGER_MS = 1_000
const DRAIN_PING = Buffer.from('draining')
const ALIVE_PING = Buffer.from('alive...')

export function createConnection(socket: Duplex, service: Service): Connection {
  const { limits } = service
  const opened = performance.now()
  const streams = createStreams()
  const output = createOutput(socket, (to) => calls.drop(to as Call))
  const calls = createCalls(service, output, streams, reset, onRemoved)
  const maxBlock = BLOCK_EXCESS * limits.maxHeaderBytes
  const blocks = createHeaderBlocks(maxBlock, onBlock, () => tooMuch('header_bytes', 'headers without end'))
  const hpack = createHpackDecoder(limits.maxHeaderBytes)
  const read = createFrameReader({ dataStart, data: onData, dataEnd, frame: onFrame }, maxBlock)
  const greeting = createGreeting()
  const inbound = createInbound(output, () => phase === 'closed' || service.congested())
  const { countReset, countIdle, tooMuch } = createAllowances(service.limited)

  let phase: 'preface' | 'settings' | 'open' | 'draining' | 'drained' | 'closed' = 'preface'
  /** When the client was last heard, when it last had a call, when it was pinged since, when its connection began to end. */
  let heard = opened
  let busy = opened
  let pinged: number | undefined
  let ended = opened
  let lastId = 0
  /** The call that the present DATA frame belongs to, and the frame's length where it is the last. */
  let current: Call | undefined
  let lastLength = 0

  socket.on('error', () => {}) // 'close' follows
  socket.on('close', () => {
    phase = 'closed'
    streams.forEach(calls.drop)
  })

  /** Whatever a client does, and whatever we do wrong, costs no more than its connection. */
  function guarded(work: () => void): void {
    try {
      work()
    } catch (error) {
      end(farewell(error))
      streams.forEach(calls.drop)
    }
  }

  function farewell(error: unknown): Buffer {
    if (error instanceof ConnectionError) return goAway(lastId, error.code, error.message)
    if (error instanceof Http1) return error.answer
    service.onError(error)
    return goAway(lastId, CODE.internalError)
  }

  function receive(piece: Buffer): void {
    if (phase === 'closed') return
    heard = performance.now()
    pinged = undefined
    if (phase === 'preface') greet(piece)
    else read(piece)
    inbound.give()
  }

  function greet(piece: Buffer): void {
    const rest = greeting(piece)
    if (!rest) return
    phase = 'settings'
    output.write(ourPreface(limits, WINDOW))
    read(rest)
  }

  function dataStart(id: number, length: number, endStream: boolean): void {
    blocks.check(TYPE.data, id)
    // Of a stream that we have reset, or that was refused, there may be more to come: it is passed over.
    if (isIdle(id)) throw illegal(`DATA on stream ${id}`)
    inbound.take(length)
    lastLength = endStream ? length : -1
    current = streams.get(id)
    if (!current || current.stage === 'receiving') return
    current = undefined
    cancel(id, CODE.streamClosed)
  }

  function onData(bytes: Buffer, start: number, end: number): void {
    if (!current) return
    if (end - start === lastLength && calls.whole(current, bytes, start, end, heard)) current = undefined
    else calls.data(current, bytes, start, end)
  }

  function dataEnd(id: number, length: number, padding: number, endStream: boolean): void {
    if (length === padding && !endStream) countIdle(heard)
    if (current && endStream) calls.end(current, heard)
    else if (current && padding > 0) output.write(windowUpdate(id, padding))
    current = undefined
  }

  function onFrame(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    blocks.check(type, id)
    if (phase === 'settings' && type !== TYPE.settings) throw illegal('the first frame must be SETTINGS')
    // Headers come with every call: no view is made of them.
    if (type === TYPE.headers) blocks.headers(flags, id, bytes, start, end)
    else if (type === TYPE.continuation) blocks.continuation(flags, id, bytes, start, end)
    else onOther(type, flags, id, bytes.subarray(start, end))
  }

  function onOther(type: number, flags: number, id: number, payload: Buffer): void {
    switch (type) {
      case TYPE.rstStream:
        sized(payload, 4)
        if (isIdle(id)) throw illegal(`RST_STREAM of stream ${id}`)
        countReset(heard)
        return drop(id)
      case TYPE.windowUpdate:
        sized(payload, 4)
        return onWindowUpdate(id, payload.readUInt32BE() & MAX_WINDOW)
      case TYPE.priority:
        sized(payload, 5)
        if (id === 0) throw illegal('PRIORITY of no stream')
        return countIdle(heard)
      case TYPE.pushPromise:
        throw illegal('a client cannot push')
    }
    if (type > TYPE.continuation) return countIdle(heard) // an extension that nobody agreed on
    if (id !== 0) throw illegal(`a frame of type ${type} on a stream`)
    if (type === TYPE.settings) onSettings(flags, payload)
    else if (type === TYPE.ping) onPing(flags, payload)
    // A client that says GOAWAY opens no more streams, and closes when it has its answers.
  }

  function onBlock(id: number, endStream: boolean, bytes: Buffer, start: number, end: number): void {
    const fields = hpack.decode(bytes, start, end) // of ignored streams as well: the table must follow
    const call = id > lastId ? undefined : streams.get(id)
    if (call?.stage === 'receiving') {
      if (endStream && fields?.every(({ name, legal }) => legal && !name.startsWith(':'))) calls.end(call, heard)
      else cancel(id, CODE.protocolError)
      return
    }
    if (id <= lastId) throw new ConnectionError(CODE.streamClosed, `HEADERS on stream ${id}, which has ended`)
    lastId = id
    if (phase === 'drained') return // the client was told, and will try elsewhere
    if (streams.size() < limits.maxConcurrentStreams) return calls.open(id, fields, endStream, heard)
    service.limited('concurrent_streams')
    reset(id, CODE.refusedStream)
  }

  function onSettings(flags: number, payload: Buffer): void {
    if (flags & FLAG.ack) return sized(payload, 0)
    countIdle(heard)
    if (phase === 'settings') phase = 'open'
    output.resume(readSettings(payload))
    output.write(frame(TYPE.settings, FLAG.ack, 0))
  }

  function onPing(flags: number, payload: Buffer): void {
    sized(payload, 8)
    if (!(flags & FLAG.ack)) output.write(frame(TYPE.ping, FLAG.ack, 0, payload))
    else if (phase === 'draining' && payload.equals(DRAIN_PING)) stopTaking()
  }

  function onWindowUpdate(id: number, bytes: number): void {
    if (id === 0) {
      if (bytes === 0) throw illegal('WINDOW_UPDATE of nothing')
      if (!output.grow(bytes)) throw new ConnectionError(CODE.flowControlError, 'a window of more than 2^31-1')
      return
    }
    if (isIdle(id)) throw illegal(`WINDOW_UPDATE of stream ${id}`)
    const call = streams.get(id)
    if (!call) return
    call.credit += bytes
    if (bytes === 0) cancel(id, CODE.protocolError)
    else if (call.credit > MAX_WINDOW) cancel(id, CODE.flowControlError)
    else output.resume()
  }

  const isIdle = (id: number): boolean => id > lastId || id % 2 === 0

  function drop(id: number): void {
    const call = streams.get(id)
    if (call) calls.drop(call)
  }

  /** Ends a stream for a mistake of the client's. */
  function cancel(id: number, code: Code): void {
    drop(id)
    reset(id, code)
  }

  function reset(id: number, code: Code): void {
    output.write(rstStream(id, code))
    countReset(heard)
  }

  function onRemoved(call: Call): void {
    if (call === current) current = undefined // the rest of its frame is passed over
    if (streams.size() > 0) return
    busy = performance.now()
    if (phase === 'drained') end()
  }

  function drain(): void {
    if (phase === 'preface') return end()
    if (phase !== 'settings' && phase !== 'open') return
    phase = 'draining'
    ended = performance.now()
    // First a warning: calls that are on their way now are still taken. The answer to the ping comes after them.
    output.write(goAway(MAX_WINDOW, CODE.noError))
    output.write(frame(TYPE.ping, 0, 0, DRAIN_PING))
  }

  function stopTaking(): void {
    phase = 'drained'
    output.write(goAway(lastId, CODE.noError))
    if (streams.size() === 0) end()
  }

  function end(last?: Buffer): void {
    phase = 'closed'
    ended = performance.now()
    output.end(last)
  }

  function sweep(now: number): void {
    if (phase === 'closed') {
      if (now - ended > (socket.writableLength > 0 ? limits.stallTimeoutMs : LINGER_MS)) socket.destroy()
      return
    }
    streams.forEach((call) => calls.expire(call, now))
    if (phase === 'draining' && now - ended > LINGER_MS) stopTaking()
    if (streams.size() === 0 && now - busy > limits.maxConnectionIdleMs) drain()
    if (now - opened > limits.maxConnectionAgeMs) drain()
    if (now - opened > limits.maxConnectionAgeMs + limits.maxConnectionAgeGraceMs) socket.destroy()
    if (phase === 'preface' && now - opened > limits.stallTimeoutMs) giveUp('silent_connections')
    if (now - (output.stalledSince() ?? now) > limits.stallTimeoutMs) giveUp('answers_unread')
    if (pinged !== undefined && now - pinged > limits.keepaliveTimeoutMs) giveUp('keepalive_timeout')
    if (pinged === undefined && phase !== 'preface' && now - heard > limits.keepaliveTimeMs) {
      pinged = now
      output.write(frame(TYPE.ping, 0, 0, ALIVE_PING))
    }
  }

  function giveUp(limit: Limit): void {
    service.limited(limit)
    socket.destroy()
  }

  return {
    receive: (piece) => guarded(() => receive(piece)),
    calls: streams.size,
    sweep: (now) => guarded(() => sweep(now)),
    letSend: inbound.give,
    drain,
  }
}
