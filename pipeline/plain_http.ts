// One client's connection over HTTP/1.1 whose requests are plain: their bodies go from the one buffer that sockets are read into straight to
// where they are needed. node:http copies each piece of 64 KB, which costs more than all else that is done with a request. The first request
// that is not plain goes to node:http, and with it the connection.

import type { Socket } from 'node:net'

import type { Lease } from './admission.ts'
import { readDirectly } from './direct_reads.ts'
import type { HttpService } from './http_exchange.ts'
import type { Message, MessageMemory } from './message_memory.ts'
import { createHeadReader, type PlainHead } from './plain_head.ts'
import { createPlainResponse, type Line, type PlainResponse } from './plain_response.ts'
import type { Pool } from './pool.ts'

/** What all connections of a server share. */
export interface PlainService {
  /** Requests for any other are not plain. */
  readonly paths: { has(path: string): boolean }
  readonly serve: HttpService
  readonly pool: Pool
  readonly memory: MessageMemory
  readonly headersTimeout: number
  readonly requestTimeout: number
  readonly idleTimeout: number
  /** Lets node:http have a connection, at the beginning of a request. */
  handOn(socket: Socket): void
  /** Ends a connection as node:http does after an error of this code. */
  fail(socket: Socket, code: string): void
  /** Whether connections are to end with their next answer. */
  isStopping(): boolean
}

export interface PlainConnection {
  /** What it is read from, paused. */
  readonly socket: Socket
  /** To be called about once a second: ends what takes too long. */
  sweep(now: number): void
  /** Ends the connection, at once or with its next answer. */
  stop(): void
}

/** What is less is as well copied. */
const READ_ON_BYTES = 32 << 10

/** A request, until it is answered and all of its body has come. */
interface Exchange extends Message {
  readonly began: number
  readonly keepAlive: boolean
  readonly response: PlainResponse
  /** How much of the body has not come. */
  left: number
  /** It waits until the handler asks for it, and is passed over where that does not want it, or no more of it. */
  body: 'waits' | 'taken' | 'passed over'
  lease: Lease | undefined
  /** Tells the handler that the body is there, or why it will not come. */
  settled: (error?: unknown) => void
  answered: boolean
  /** Since when the client has all of the answer to take that it does not take. */
  stuck: number
}

/** Takes a socket of a server with `pauseOnConnect`. */
export function createPlainConnection(accepted: Socket, service: PlainService): PlainConnection {
  const { memory, pool } = service
  const readHead = createHeadReader()
  /** Whether we read it: not after it was handed on, or its end has begun. */
  let isOurs = true
  let open: Exchange | undefined
  /** Since when no request is open, and whether there was one before. */
  let idle = performance.now()
  let isNew = true
  /** What came while it could not be read, and where. */
  let held: Buffer | undefined
  let heldStart = 0
  let heldEnd = 0

  const socket = readDirectly(accepted, { receive: (piece) => receive(piece, 0, piece.length), place })
  socket.on('error', () => {}) // 'close' follows
  socket.on('end', onEnd)
  socket.on('close', onClose)

  function onEnd(): void {
    if (open && open.left > 0) fail('HPE_INVALID_EOF_STATE')
    else end()
  }

  function onClose(): void {
    isOurs = false
    if (held) pool.give(held)
    held = undefined
    open?.response.closed(socket.writableFinished)
    if (open && open.left > 0) open.settled(new Error('aborted'))
  }

  function receive(bytes: Buffer, start: number, end: number): void {
    let at = start
    while (at < end && isOurs) {
      if (!open) {
        const head = readHead(bytes, at, end)
        if (!head || !service.paths.has(head.path)) return handOn(bytes, at, end)
        at = head.end
        begin(head)
      } else if (open.left === 0 || open.body === 'waits') {
        return hold(bytes, at, end)
      } else {
        const size = Math.min(open.left, end - at)
        take(open, bytes, at, at + size)
        at += size
      }
    }
  }

  /** What is left of a large body is read to where it belongs. */
  function place(): Buffer | undefined {
    if (!isOurs || open?.body !== 'taken' || open.left < READ_ON_BYTES) return undefined
    return memory.rest(open)
  }

  function handOn(bytes: Buffer, start: number, end: number): void {
    isOurs = false
    socket.off('end', onEnd).off('close', onClose).pause()
    socket.unshift(Buffer.from(bytes.subarray(start, end)))
    service.handOn(socket)
    socket.resume()
  }

  const line: Line = { socket, isOpen: () => isOurs, goesOn: () => open!.keepAlive && !service.isStopping() }

  function begin({ path, fields, contentLength, keepAlive }: PlainHead): void {
    const response = createPlainResponse(line, (goesOn) => finish(its, goesOn))
    const its: Exchange = {
      began: performance.now(),
      keepAlive,
      response,
      length: contentLength,
      left: contentLength,
      slot: undefined,
      got: 0,
      body: 'waits',
      lease: undefined,
      settled: () => {},
      answered: false,
      stuck: Infinity,
    }
    open = its
    isNew = false
    const collect = (_maxBytes: number, lease: Lease) =>
      new Promise<Buffer>((resolve, reject) => {
        its.lease = lease
        its.settled = (error) => (error === undefined ? resolve(memory.whole(its)) : reject(error as Error))
        if (!isOurs) return its.settled(new Error('aborted'))
        its.body = 'taken'
        if (its.left === 0) its.settled()
        else if (isHolding()) goOn()
      })
    const header = (name: string) => (name === 'content-length' ? String(contentLength) : fields.get(name))
    service.serve({ method: 'POST', path, header, collect }, response)
  }

  function take(its: Exchange, bytes: Buffer, start: number, end: number): void {
    its.left -= end - start
    if (its.body === 'taken') {
      try {
        its.lease!.add(end - start)
        memory.append(its, bytes, start, end)
        if (its.left === 0) its.settled()
      } catch (error) {
        its.body = 'passed over' // what still comes is read, so that the client gets to see the answer
        its.settled(error)
      }
    }
    if (its.left === 0 && its.answered) close()
  }

  /** Keeps what can only be read when the request before it is answered, or when it is known who sends it. */
  function hold(bytes: Buffer, start: number, end: number): void {
    socket.pause()
    heldStart = start
    heldEnd = end
    if (bytes === held) return
    try {
      held = pool.take(end - start)
    } catch {
      isOurs = false
      return void socket.destroy()
    }
    heldStart = 0
    heldEnd = bytes.copy(held, 0, start, end)
  }

  const isHolding = (): boolean => heldEnd > heldStart

  function goOn(): void {
    if (isHolding()) {
      const [start, end] = [heldStart, heldEnd]
      heldEnd = heldStart
      receive(held!, start, end)
      if (isHolding()) return
      pool.give(held!)
      held = undefined
    }
    if (isOurs) socket.resume()
  }

  function finish(its: Exchange, goesOn: boolean): void {
    memory.release(its)
    if (!isOurs) return
    its.body = 'passed over'
    if (!goesOn || service.isStopping()) return end()
    if (!socket.writableNeedDrain) return answered(its)
    its.stuck = performance.now()
    socket.once('drain', () => answered(its))
  }

  function answered(its: Exchange): void {
    its.answered = true
    its.response.closed(true)
    if (its.left === 0) close()
    goOn()
  }

  function close(): void {
    open = undefined
    idle = performance.now()
  }

  function end(): void {
    isOurs = false
    idle = performance.now()
    socket.destroySoon()
  }

  function fail(code: string): void {
    isOurs = false
    idle = performance.now()
    service.fail(socket, code)
  }

  return {
    socket,
    sweep(now) {
      const silent = now - idle
      if (isOurs && open) {
        if (open.left > 0 && now - open.began > service.requestTimeout) fail('ERR_HTTP_REQUEST_TIMEOUT')
        else if (now - open.stuck > service.idleTimeout) socket.destroy()
      } else if (isOurs && isNew && silent > service.headersTimeout) fail('ERR_HTTP_REQUEST_TIMEOUT')
      else if (silent > service.idleTimeout) socket.destroy()
    },
    stop() {
      if (!open) socket.destroy()
    },
  }
}
