// Reads a checkpoint in a thread of its own and hands its weights over: from files to numbers that were all looked at takes a large policy seconds,
// in which a decoder is not to stand still.

import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'

import { readCheckpoint, type Checkpoint } from './checkpoint.ts'

export type ReadCheckpoint =
  | { readonly checkpoint: Checkpoint; /** The same for folders that have the same tokenizer. */ readonly tokenizer: string }
  | { readonly problem: string }

const TOKENIZER = ['tokenizer.json', 'tokenizer_config.json', 'config.json', 'generation_config.json']

try {
  const checkpoint = readCheckpoint(workerData as string)
  const digest = createHash('sha256')
  for (const name of TOKENIZER) {
    const file = join(checkpoint.base, name)
    digest.update(existsSync(file) ? readFileSync(file) : '').update('\0')
  }
  const buffers = new Set([...checkpoint.weights.values()].map(({ data }) => data.buffer as ArrayBuffer))
  tell({ checkpoint, tokenizer: digest.digest('hex') }, [...buffers])
} catch (error) {
  tell({ problem: (error as Error).message }, [])
}

function tell(read: ReadCheckpoint, buffers: ArrayBuffer[]): void {
  parentPort!.postMessage(read, buffers)
}
