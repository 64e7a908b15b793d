// Shows, to whoever asks on this machine, what leaves a component while it does: one JSON line for each request or rollout. Nobody waits for who
// looks on: what they cannot take in time is dropped for them, counted, and said in the stream.

import type { IncomingMessage, ServerResponse } from 'node:http'

import { toJson } from '../data/otlp_json.ts'
import type { Rollout } from '../data/rollout.ts'
import { rolloutJson } from '../data/rollout_json.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import type { Consumer, Item, Signal } from './component.ts'
import { nearMiss } from './schema.ts'
import { sizeOf } from './size.ts'

export interface Taps {
  /** Announces a component, and shows what it is given to whoever taps that. */
  shower(id: string, signal: Signal): (items: readonly Item[]) => void
  /** The consumer, with what it gets shown as what leaves the component. */
  tapped(id: string, signal: Signal, consumer: Consumer): Consumer
  /** Answers a request for /tap/<id>; false when it is for something else. */
  handle(request: IncomingMessage, response: ServerResponse): boolean
  /** The graph has stopped. Who looks on goes on looking at the next one. */
  forget(): void
  close(): void
}

interface Watcher {
  readonly id: string
  readonly response: ServerResponse
  dropped: number
}

/** Their JSON is made on the way of the data. */
const MAX_WATCHERS = 4
/** Bytes that may wait for one who reads slowly. */
const MAX_WAITING = 8 << 20
/** The member of a line that says how many items were left out before it. */
export const DROPPED = 'leyden.tap.dropped'

/** @param dropped told how many items somebody could not take */
export function createTaps(dropped: (items: number, id: string) => void): Taps {
  const known = new Set<string>()
  const watchers = new Set<Watcher>()

  function shower(id: string, signal: Signal) {
    known.add(id)
    return (items: readonly Item[]) => {
      for (const watcher of watchers) if (watcher.id === id) send(watcher, signal, items)
    }
  }

  function send(watcher: Watcher, signal: Signal, items: readonly Item[]): void {
    const { response, id } = watcher
    const lines = response.writableLength > MAX_WAITING ? undefined : linesOf(signal, items)
    if (lines === undefined) {
      const count = sizeOf(items, 'items')
      watcher.dropped += count
      dropped(count, id)
      return
    }
    if (watcher.dropped > 0) response.write(`${JSON.stringify({ [DROPPED]: watcher.dropped })}\n`)
    watcher.dropped = 0
    response.write(lines)
  }

  function handle(request: IncomingMessage, response: ServerResponse): boolean {
    const [, written] = /^\/tap\/([^?]*)/.exec(request.url ?? '') ?? []
    if (written === undefined) return false
    const id = decoded(written)
    if (!isLocal(request)) refuse(response, 403, 'only this machine may look on')
    else if (request.method !== 'GET') refuse(response, 405, 'only GET')
    else if (!known.has(id))
      refuse(response, 404, `no component "${id}" runs${nearMiss(id, [...known])}; there are: ${[...known].sort().join(', ')}`)
    else if (watchers.size >= MAX_WATCHERS) refuse(response, 503, `${MAX_WATCHERS} are looking on already`)
    else {
      const watcher = { id, response, dropped: 0 }
      watchers.add(watcher)
      response.on('close', () => watchers.delete(watcher))
      response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
    }
    return true
  }

  return {
    shower,
    tapped(id, signal, consumer) {
      const show = shower(id, signal)
      return (items) => {
        show(items)
        return consumer(items)
      }
    },
    handle,
    forget: () => known.clear(),
    close() {
      for (const { response } of watchers) response.end()
    },
  }
}

/** undefined for what is too large to be one text: the data goes on, whoever looks on. */
function linesOf(signal: Signal, items: readonly Item[]): string | undefined {
  try {
    const line = (item: Item) => (signal === 'rollouts' ? rolloutJson(item as Rollout) : JSON.stringify(toJson(item as SpanBatch)))
    return items.map((item) => `${line(item)}\n`).join('')
  } catch {
    return undefined
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Prompts are nobody else's business: neither another machine's, nor a web page's that found a name for this one. */
function isLocal({ socket, headers }: IncomingMessage): boolean {
  const from = socket.remoteAddress ?? ''
  const host = (headers.host ?? '').replace(/:\d+$/, '')
  return /^(127\.|::1$|::ffff:127\.)/.test(from) && ['localhost', '127.0.0.1', '[::1]'].includes(host)
}

const refuse = (response: ServerResponse, status: number, why: string): void =>
  void response.writeHead(status, { 'content-type': 'text/plain' }).end(`${why}\n`)
