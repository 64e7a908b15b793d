// Whether transformers and PEFT load the folders of policies, and then say what Leyden says: by Python, where it has them.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'

import { readCheckpoint } from '../policy/checkpoint.ts'
import { openForward } from '../policy/forward.ts'
import { BLOCK } from '../policy/kv_cache.ts'
import { openProducts, type Products } from '../policy/products.ts'
import { formatTable } from './table.ts'

const LENGTH = 24

export interface Compared {
  readonly folder: string
  /** Largest difference of a logit, as a share of the largest logit. */
  readonly difference: number
}

export const hasHuggingFace = (python: string): boolean =>
  spawnSync(python, [
    '-c',
    'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ("torch", "transformers", "peft"))))',
  ]).status === 0

export async function huggingFace(folders: readonly string[], python: string): Promise<void> {
  if (!hasHuggingFace(python)) throw new Error(`${python} has no torch, transformers and peft: pip install torch transformers peft`)
  const compared = await compareLogits(folders, python)
  console.log(
    formatTable(
      ['folder', 'largest difference of a logit / largest logit'],
      compared.map(({ folder, difference }) => [folder, difference.toExponential(1)]),
    ),
  )
}

/** Logits after each token of a fixed sequence. Rejects, saying why, where a folder does not load there as it should. */
export async function compareLogits(folders: readonly string[], python: string): Promise<Compared[]> {
  const products = await openProducts({ kernels: 'decomp' })
  const child = spawn(python, ['bench/check_hugging_face.py'], {
    env: { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_VERBOSITY: 'error' },
  })
  const told = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  child.stdin.on('error', () => {}) // it ended early, and says why on stderr
  for (const folder of folders.map((name) => resolve(name)))
    child.stdin.write(`${JSON.stringify({ folder, ...logitsOf(folder, products) })}\n`)
  child.stdin.end()
  const [stdout, stderr, [code]] = await told
  if (code !== 0) throw new Error(stderr.trim().split('\n').at(-1))
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Compared)
}

function logitsOf(folder: string, products: Products): { ids: number[]; logits: number[][] } {
  const checkpoint = readCheckpoint(folder)
  const { vocabulary } = checkpoint.config
  const ids = Array.from({ length: LENGTH }, (_, i) => (3 + 17 * i * i) % vocabulary)
  const blocks = Array.from({ length: Math.ceil(LENGTH / BLOCK) }, (_, i) => i)
  const forward = openForward(checkpoint, products, blocks.length, LENGTH)
  const rows = ids.map((token, position) => ({ token, position, blocks }))
  const logits = forward.read(rows, [...ids.keys()]).map((row) => Array.from(row))
  forward.close()
  return { ids, logits }
}
