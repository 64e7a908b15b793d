// The decoder's thread: loads versions, and steps the batch for as long as there is work. Between two steps it reads its messages.

import { once } from 'node:events'
import { createRequire } from 'node:module'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, Worker, workerData } from 'node:worker_threads'

import { openBatch, type BatchEvent, type BatchRequest } from './batch.ts'
import type { ReadCheckpoint } from './checkpoint_worker.ts'
import { bytesPerBlock, openingForward } from './forward.ts'
import { BLOCK, openKvCache } from './kv_cache.ts'
import { openProducts, type ProductOptions } from './products.ts'
import { openTokenizer, type Tokenizer } from './tokenizer.ts'

export interface WorkerOptions extends ProductOptions {
  readonly max_running: number
  readonly cache_bytes: number
}

export interface WorkerData extends WorkerOptions {
  /** What the thread before this one had loaded, by version, and which was live. */
  readonly versions: readonly (readonly [version: number, folder: string])[]
  readonly live: number | null
}

export type ToWorker =
  | { readonly kind: 'load'; readonly version: number; readonly folder: string }
  | { readonly kind: 'promote' | 'release'; readonly version: number }
  | { readonly kind: 'generate'; readonly request: BatchRequest }
  | { readonly kind: 'abort'; readonly id: number }

export type FromWorker =
  | { readonly kind: 'ready'; readonly line: string }
  | { readonly kind: 'loaded'; readonly version: number; readonly problem: string | null }
  | { readonly kind: 'step'; readonly events: readonly BatchEvent[] }

/** A pass is kept to some 50 ms, at 30 GFLOP/s and two operations per parameter and token: prompts longer than that are read in pieces. */
const PARAMETERS_PER_PASS = 750_000_000
const MOST_TOKENS_PER_PASS = 256

const port = parentPort!
const options = workerData as WorkerData
const tell = (message: FromWorker) => port.postMessage(message)
const products = await openProducts(options)
const batch = openBatch(options)
/** By what they were made of: the versions of a policy share one, which takes as long to read as a small model. */
const tokenizers = new Map<string, Tokenizer>()
let stepping = false

port.on('message', (message: ToWorker) => {
  switch (message.kind) {
    case 'load':
      return void load(message.version, message.folder)
    case 'promote':
      return batch.promote(message.version)
    case 'release':
      return batch.release(message.version)
    case 'abort':
      return batch.abort(message.id)
    case 'generate':
      batch.add(message.request)
      if (!stepping) setImmediate(step)
      stepping = true
  }
})
for (const [version, folder] of options.versions) await load(version, folder)
if (options.live !== null) batch.promote(options.live)
tell({ kind: 'ready', line: products.line })

function step(): void {
  const events = batch.step()
  if (events.length > 0) tell({ kind: 'step', events })
  stepping = batch.busy()
  if (stepping) setImmediate(step)
}

/** Answers go on meanwhile: files are read elsewhere, matrices made ready between steps. */
async function load(version: number, folder: string): Promise<void> {
  try {
    const read = await readElsewhere(folder)
    if ('problem' in read) throw new Error(read.problem)
    const { config, base, weights } = read.checkpoint
    const tokenizer = tokenizers.get(read.tokenizer) ?? (await openTokenizer(base))
    tokenizers.set(read.tokenizer, tokenizer)
    // More than every answer's whole context is never used.
    const wanted = options.max_running * Math.ceil(config.context / BLOCK)
    const blocks = Math.min(wanted, Math.floor(options.cache_bytes / bytesPerBlock(config)))
    const context = Math.min(config.context, blocks * BLOCK)
    const parameters = [...weights.values()].reduce((sum, { data }) => sum + data.length, 0)
    const tokens_per_pass = Math.max(options.max_running, Math.min(MOST_TOKENS_PER_PASS, Math.floor(PARAMETERS_PER_PASS / parameters)))
    const opening = openingForward(read.checkpoint, products, blocks, tokens_per_pass)
    let opened = opening.next()
    for (; !opened.done; opened = opening.next()) await nextTurn()
    batch.load(version, { forward: opened.value, cache: openKvCache(blocks), tokenizer, context, tokens_per_pass })
    tell({ kind: 'loaded', version, problem: null })
  } catch (error) {
    tell({ kind: 'loaded', version, problem: (error as Error).message })
  }
}

async function readElsewhere(folder: string): Promise<ReadCheckpoint> {
  const reader = new Worker(createRequire(import.meta.url).resolve('#checkpoint-worker'), { workerData: folder })
  const [read] = (await once(reader, 'message')) as [ReadCheckpoint]
  return read
}
