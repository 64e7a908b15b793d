// The decoder's thread: loads versions, and steps the batch for as long as there is work. Between two steps it reads its messages.

import { parentPort, workerData } from 'node:worker_threads'

import { openBatch, type BatchEvent, type BatchRequest } from './batch.ts'
import { readCheckpoint } from './checkpoint.ts'
import { bytesPerBlock, openForward } from './forward.ts'
import { BLOCK, openKvCache } from './kv_cache.ts'
import { openProducts, type ProductOptions } from './products.ts'
import { openTokenizer } from './tokenizer.ts'

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

async function load(version: number, folder: string): Promise<void> {
  try {
    const checkpoint = readCheckpoint(folder)
    const { config, base } = checkpoint
    const tokenizer = await openTokenizer(base)
    // More than every answer's whole context is never used.
    const wanted = options.max_running * Math.ceil(config.context / BLOCK)
    const blocks = Math.min(wanted, Math.floor(options.cache_bytes / bytesPerBlock(config)))
    const context = Math.min(config.context, blocks * BLOCK)
    const parameters = [...checkpoint.weights.values()].reduce((sum, { data }) => sum + data.length, 0)
    const tokens_per_pass = Math.max(options.max_running, Math.min(MOST_TOKENS_PER_PASS, Math.floor(PARAMETERS_PER_PASS / parameters)))
    const forward = openForward(checkpoint, products, blocks, tokens_per_pass)
    batch.load(version, { forward, cache: openKvCache(blocks), tokenizer, context, tokens_per_pass })
    tell({ kind: 'loaded', version, problem: null })
  } catch (error) {
    tell({ kind: 'loaded', version, problem: (error as Error).message })
  }
}
