// A process of `bench -- train`: steps of one learner, whose figures it prints as JSON. bench/train_peer.py is the same with PyTorch.

import { readFileSync } from 'node:fs'

import { openLearner } from '../policy/learner.ts'
import type { LearnerOptions } from '../policy/learning.ts'

export interface TrainJob {
  readonly folder: string
  readonly rows: readonly TrainRow[]
  readonly kernels: string
  readonly lora: boolean
  readonly steps: number
}

export interface TrainRow {
  readonly tokens: readonly number[]
  readonly scored: readonly number[]
}

export interface TrainFigures {
  readonly tokens: number
  /** Of the fastest step. */
  readonly wall_s: number
  readonly cpu_s: number
  readonly peak_mb: number
  /** From the step in the middle to the last; not PyTorch's. */
  readonly more_tensors?: number
  readonly more_mb?: number
}

const LORA = { rank: 8, alpha: 16, targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] }

async function measure({ folder, rows, kernels, lora, steps }: TrainJob): Promise<TrainFigures> {
  const learner = await openLearner({
    ...{ base: folder, backend: 'wasm', kernels: kernels as LearnerOptions['kernels'], value_head: false, tokens_per_pass: 4096, seed: 1 },
    ...(lora ? { lora: LORA } : {}),
    optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0, clip_norm: 1 },
  })
  const tf = await import('@tensorflow/tfjs-core')
  const batch = rows.map(({ tokens, scored }) => ({ tokens: Int32Array.from(tokens), scored: Uint8Array.from(scored), temperature: 1 }))
  const step = async () => {
    await learner.accumulate(batch, ({ logprobs }) => ({ logprobs: logprobs.map((_, i) => Math.sin(i) / logprobs.length) }))
    await learner.step(1e-4)
  }
  const held = () => ({ tensors: tf.memory().numTensors, mb: process.memoryUsage().rss / 1e6 })
  await step()
  let [wall_s, cpu_s, middle] = [Infinity, Infinity, held()]
  for (let i = 1; i <= steps; i++) {
    const [start, before] = [performance.now(), process.cpuUsage()]
    await step()
    const { user, system } = process.cpuUsage(before)
    wall_s = Math.min(wall_s, (performance.now() - start) / 1e3)
    cpu_s = Math.min(cpu_s, (user + system) / 1e6)
    if (i === Math.ceil(steps / 2)) middle = held()
  }
  const last = held()
  return {
    tokens: batch.reduce((sum, { tokens }) => sum + tokens.length, 0),
    ...{ wall_s, cpu_s, peak_mb: Math.round(process.resourceUsage().maxRSS / 1024) },
    ...{ more_tensors: last.tensors - middle.tensors, more_mb: Math.round(last.mb - middle.mb) },
  }
}

if (process.argv[1] === import.meta.filename)
  console.log(JSON.stringify(await measure(JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as TrainJob)))
