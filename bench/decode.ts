// How fast the decoder draws tokens: so many agents that each ask, in turns that go on from the last answer, and wait for the answer.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { initCheckpoint } from '../policy/checkpoint.ts'
import { openDecoder } from '../policy/decoder.ts'
import type { Decoder } from '../policy/decoding.ts'
import type { ProductOptions } from '../policy/products.ts'
import { wordLevelFolder } from '../test/policy.ts'
import { modelShape, parameterCount, type Shape } from './models.ts'
import { formatTable } from './table.ts'

const CONTEXT = 512
const TURNS = 3
const PROMPT = 40
const ANSWER = 48

export async function decode({
  models,
  agents,
  seconds,
}: {
  models: readonly string[]
  agents: readonly number[]
  seconds: number
}): Promise<void> {
  const rows: (string | number)[][] = []
  const scratch = await mkdtemp(join(tmpdir(), 'leyden-decode-'))
  try {
    for (const name of models) {
      const model = modelShape(name)
      const words = Array.from({ length: model.vocab_size - 2 }, (_, i) => `w${i}`)
      const folder = wordLevelFolder(join(scratch, name), words)
      initCheckpoint(folder, { ...model, max_position_embeddings: CONTEXT }, 1)
      for (const kernels of ['decomp', 'auto'] as const) rows.push(...(await measure(folder, model, kernels, agents, seconds)))
    }
  } finally {
    await rm(scratch, { recursive: true })
  }
  const header = [
    'parameters',
    'kernels',
    'agents',
    'tokens/s',
    'per CPU-second',
    'prompt tokens/s',
    'from the cache',
    'first token, ms',
    'MB',
  ]
  console.log(formatTable(header, rows))
}

async function measure(
  folder: string,
  model: Shape,
  kernels: ProductOptions['kernels'],
  agents: readonly number[],
  seconds: number,
): Promise<(string | number)[][]> {
  const decoder = await openDecoder({ kernels, max_running: Math.max(...agents) })
  // Without large matrices, or without OpenBLAS, it is the same thing again.
  if (kernels === 'auto' && !(decoder.state().backend.includes('large') && model.vocab_size * model.hidden_size > 100_000)) {
    await decoder.close()
    return []
  }
  await decoder.load(1, folder)
  decoder.promote(1)
  const rows: (string | number)[][] = []
  for (const count of agents) {
    await load(decoder, model, count, seconds / 4)
    const start = { at: performance.now(), cpu: process.cpuUsage() }
    const done = await load(decoder, model, count, seconds)
    const { user, system } = process.cpuUsage(start.cpu)
    const wall = (performance.now() - start.at) / 1000
    rows.push([
      parameterCount(model),
      kernels,
      count,
      Math.round(done.drawn / wall),
      Math.round(done.drawn / ((user + system) / 1e6)),
      Math.round(done.read / wall),
      `${Math.round((100 * done.cached) / done.read)} %`,
      (done.waited / done.answers).toFixed(1),
      Math.round(process.memoryUsage().rss / 1e6),
    ])
  }
  await decoder.close()
  return rows
}

interface Done {
  answers: number
  drawn: number
  read: number
  cached: number
  /** Milliseconds to first tokens, summed. */
  waited: number
}

async function load(decoder: Decoder, { vocab_size }: { vocab_size: number }, agents: number, seconds: number): Promise<Done> {
  const done: Done = { answers: 0, drawn: 0, read: 0, cached: 0, waited: 0 }
  const end = performance.now() + seconds * 1000
  const sampling = { temperature: 1, top_p: 1, top_k: 0, max_tokens: ANSWER, stop: [], top_logprobs: 0 }
  let seed = 0
  const agent = async () => {
    while (performance.now() < end) {
      let prompt: number[] = []
      for (let turn = 0; turn < TURNS && performance.now() < end; turn++) {
        seed++
        prompt = [...prompt, ...Array.from({ length: PROMPT }, (_, i) => 2 + ((i * 7 + seed * 13) % (vocab_size - 2)))]
        const asked = performance.now()
        let first = 0
        const each = () => (first ||= performance.now())
        const answer = await decoder.generate(prompt, { ...sampling, seed }, each, new AbortController().signal)
        done.answers++
        done.drawn += answer.token_ids.length
        done.read += prompt.length
        done.cached += answer.cached_tokens
        done.waited += first - asked
        prompt.push(...answer.token_ids)
      }
    }
  }
  await Promise.all(Array.from({ length: agents }, agent))
  return done
}
