// A decoder in a thread of its own, since decoding would hold up an endpoint's event loop. This side keeps who waits for which answer, and starts the
// thread again when it dies: what it was decoding is rejected, the versions are loaded again.

import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'

import type { BatchEvent } from './batch.ts'
import { DecoderBusy, FormFailed, type Decoder, type Generation, type SampledToken } from './decoding.ts'
import type { FromWorker, ToWorker, WorkerData, WorkerOptions } from './decoder_worker.ts'

export interface DecoderOptions extends Partial<WorkerOptions> {
  /** Answers that may wait for a place; more are refused. */
  readonly max_waiting?: number
}

const DEFAULTS = { kernels: 'auto', max_running: 32, cache_bytes: 256 * 2 ** 20, max_waiting: 256 } as const

/** After a crash the thread starts again at once, after further ones ever later. */
const RESTART_MS = { first: 100, most: 30_000 }

interface Pending {
  readonly resolve: (generation: Generation) => void
  readonly reject: (reason: unknown) => void
  readonly each: (token: SampledToken) => void
  readonly tokens: SampledToken[]
  began: { readonly version: number; readonly cached_tokens: number } | null
}

export async function openDecoder(given: DecoderOptions): Promise<Decoder> {
  const { max_waiting, ...options } = { ...DEFAULTS, ...given }
  const pending = new Map<number, Pending>()
  const loading = new Map<number, { readonly folder: string; readonly resolve: () => void; readonly reject: (reason: Error) => void }>()
  /** Loaded versions and their folders. */
  const folders = new Map<number, string>()
  let live: number | null = null
  let ids = 0
  let restarts = 0
  let failures = 0
  let closed = false
  let timer: NodeJS.Timeout | undefined
  let line = ''
  let worker: Worker | null = null
  /** It has loaded what was loaded before. */
  let ready = false
  const send = (message: ToWorker) => worker?.postMessage(message)

  function start(): Promise<void> {
    return new Promise((resolve, reject) => {
      const workerData: WorkerData = { ...options, versions: [...folders], live }
      const thread = new Worker(createRequire(import.meta.url).resolve('#decoder-worker'), { workerData })
      let problem = 'it ended'
      worker = thread
      thread.on('error', (error) => (problem = error.message))
      thread.on('exit', () => {
        reject(new Error(problem))
        if (worker === thread) ended(problem)
      })
      thread.on('message', (message: FromWorker) => {
        if (message.kind === 'ready') {
          line = message.line
          ready = true
          resolve()
        } else if (message.kind === 'loaded') settle(message.version, message.problem)
        else for (const event of message.events) take(event)
      })
    })
  }

  function ended(problem: string): void {
    worker = null
    ready = false
    if (closed) return
    rejectAll(new Error(`the decoder's thread died (${problem}); ask again`))
    restarts++
    const delay = failures === 0 ? 0 : Math.min(RESTART_MS.most, RESTART_MS.first * 2 ** failures)
    failures++
    // Its end is handled by the 'exit' event, which starts it again.
    timer = setTimeout(() => void start().catch(() => {}), delay)
  }

  function rejectAll(error: Error): void {
    for (const { reject } of [...pending.values(), ...loading.values()]) reject(error)
    pending.clear()
    loading.clear()
  }

  function settle(version: number, problem: string | null): void {
    const caller = loading.get(version)
    loading.delete(version)
    if (problem === null) {
      if (caller) folders.set(version, caller.folder)
      caller?.resolve()
      return
    }
    // One that could be loaded before the thread died, and no more.
    if (!caller) folders.delete(version)
    if (!caller && live === version) live = null
    caller?.reject(new Error(problem))
  }

  function take(event: BatchEvent): void {
    const answer = pending.get(event.id)
    if (!answer) return
    if (event.kind === 'began') {
      answer.began = event
    } else if (event.kind === 'failed') {
      pending.delete(event.id)
      answer.reject(new (event.form ? FormFailed : Error)(event.problem))
    } else {
      failures = 0
      answer.tokens.push(event.token)
      if (event.finish) pending.delete(event.id)
      answer.each(event.token)
      if (event.finish) answer.resolve(generationOf(answer, event.finish))
    }
  }

  await start().catch((error: Error) => {
    closed = true
    clearTimeout(timer)
    throw error
  })

  return {
    generate(prompt, sampling, each, abort, version) {
      return new Promise((resolve, reject) => {
        abort.throwIfAborted()
        if (!ready) throw new Error("the decoder's thread is starting again; ask again")
        if (version !== undefined && !folders.has(version)) throw new Error(`version ${version} is not loaded`)
        if (version === undefined && live === null) throw new Error('no version is live')
        if (pending.size >= options.max_running + max_waiting) throw new DecoderBusy(pending.size)
        const id = ++ids
        const stop = () => {
          pending.delete(id)
          send({ kind: 'abort', id })
          reject(abort.reason)
        }
        const settled =
          <T>(settle: (value: T) => void) =>
          (value: T) => {
            abort.removeEventListener('abort', stop)
            settle(value)
          }
        abort.addEventListener('abort', stop, { once: true })
        pending.set(id, { resolve: settled(resolve), reject: settled(reject), each, tokens: [], began: null })
        send({ kind: 'generate', request: { id, prompt, sampling, version } })
      })
    },
    load(version, folder) {
      return new Promise((resolve, reject) => {
        if (!ready) throw new Error("the decoder's thread is starting again; ask again")
        if (folders.has(version) || loading.has(version)) throw new Error(`version ${version} is loaded already`)
        loading.set(version, { folder, resolve, reject })
        send({ kind: 'load', version, folder })
      })
    },
    promote(version) {
      if (!folders.has(version)) throw new Error(`version ${version} is not loaded`)
      live = version
      send({ kind: 'promote', version })
    },
    release(version) {
      if (version === live) throw new Error(`version ${version} is live; promote another one first`)
      if (folders.delete(version)) send({ kind: 'release', version })
    },
    state() {
      const running = [...pending.values()].filter(({ began }) => began).length
      return { loaded: [...folders.keys()], live, running, waiting: pending.size - running, restarts, backend: line }
    },
    async close() {
      closed = true
      clearTimeout(timer)
      rejectAll(new Error('the decoder is closed'))
      await worker?.terminate()
    },
  }
}

function generationOf({ tokens, began }: Pending, finish_reason: 'stop' | 'length'): Generation {
  return {
    text: tokens.map(({ text }) => text).join(''),
    token_ids: tokens.map(({ id }) => id),
    logprobs: tokens.map(({ logprob }) => logprob),
    finish_reason,
    version: began!.version,
    cached_tokens: began!.cached_tokens,
  }
}
