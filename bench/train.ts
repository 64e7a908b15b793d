// Training steps of policies of several sizes, one after the other, each in a process of its own: tokens per second, memory, and whether either grows.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { initCheckpoint, type NewModel } from '../policy/checkpoint.ts'
import { openLearner } from '../policy/learner.ts'
import type { LearnerOptions, Row } from '../policy/learning.ts'
import { formatTable } from './table.ts'

export interface TrainBench {
  readonly kernels: readonly string[]
  readonly models: readonly string[]
  /** Measured steps of each case; the fastest counts. */
  readonly steps: number
  /** A script that prints lines of JSON with `case`, `tokens`, `tokens_per_s` and `tokens_per_cpu_s`, for the same batch in PyTorch; '': none. */
  readonly peer: string
}

interface Case {
  readonly name: string
  readonly kernels: LearnerOptions['kernels']
  readonly model: NewModel
  readonly batch: 'merged' | 'turns'
  readonly steps: number
  readonly lora?: LearnerOptions['lora']
  /** Rollouts of the batch. */
  readonly rollouts: number
}

interface Figures {
  readonly backend: string
  readonly parameters: number
  readonly tokens: number
  readonly wallSeconds: number
  readonly cpuSeconds: number
  readonly megabytes: number
  readonly growth: number
}

const heads = { num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 1024 }
const MODELS: Readonly<Record<string, Pick<Case, 'model' | 'rollouts' | 'lora'>>> = {
  '50k': { model: { vocab_size: 64, hidden_size: 48, intermediate_size: 96, num_hidden_layers: 2, ...heads }, rollouts: 32 },
  '4m': {
    model: {
      ...heads,
      vocab_size: 4096,
      hidden_size: 256,
      intermediate_size: 688,
      num_hidden_layers: 4,
      num_attention_heads: 8,
      num_key_value_heads: 4,
    },
    rollouts: 8,
  },
  '135m': {
    model: {
      ...heads,
      vocab_size: 49152,
      hidden_size: 576,
      intermediate_size: 1536,
      num_hidden_layers: 30,
      num_attention_heads: 9,
      num_key_value_heads: 3,
    },
    // 3 of 368 tokens: about 1,024
    rollouts: 3,
    lora: { rank: 8, alpha: 16, targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] },
  },
}

export function train({ kernels, models, steps, peer }: TrainBench): void {
  const rows: (string | number)[][] = []
  for (const name of models) {
    const size = MODELS[name]
    if (!size) throw new Error(`--models: one of ${Object.keys(MODELS).join(', ')} (got ${name})`)
    for (const kernel of kernels) {
      for (const batch of name === '4m' ? (['turns', 'merged'] as const) : (['merged'] as const)) {
        const figures = alone({ ...size, name, kernels: kernel as Case['kernels'], batch, steps })
        rows.push([
          `${name}${size.lora ? ' LoRA' : ''}`,
          kernel,
          batch === 'turns' ? 'row per turn' : 'merged',
          figures.parameters,
          figures.tokens,
          figures.wallSeconds.toFixed(2),
          Math.round(figures.tokens / figures.wallSeconds),
          Math.round(figures.tokens / figures.cpuSeconds),
          figures.megabytes,
          figures.growth,
        ])
      }
    }
  }
  for (const line of peer ? runPeer(peer) : []) {
    rows.push([
      '4m',
      'PyTorch',
      line.case,
      '',
      line.tokens,
      line.wall_s.toFixed(2),
      line.tokens_per_s,
      line.tokens_per_cpu_s,
      line.peak_mb,
      '',
    ])
  }
  console.log(
    formatTable(
      [
        'model',
        'kernels',
        'batch',
        'parameters',
        'tokens',
        's/step',
        'tokens/s',
        'tokens per CPU-second',
        'peak MB',
        'tensors more after the last step',
      ],
      rows,
    ),
  )
  if (!peer) console.log('\nPyTorch was not run: name a script that steps the same batch with --peer.')
}

/** In a process of its own: memory that WebAssembly once had it never gives back. */
function alone(one: Case): Figures {
  const { stdout, stderr, status } = spawnSync(process.execPath, [import.meta.filename, JSON.stringify(one)], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${one.name} ${one.kernels}: ${stderr}`)
  return JSON.parse(stdout) as Figures
}

interface PeerLine {
  readonly case: string
  readonly tokens: number
  readonly wall_s: number
  readonly tokens_per_s: number
  readonly tokens_per_cpu_s: number
  readonly peak_mb: number
}

function runPeer(script: string): PeerLine[] {
  const { stdout, stderr, status } = spawnSync('python3', [script, '--threads', '1', '--mode', 'plain'], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${script}: ${stderr}`)
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'))
  return lines.map((line) => JSON.parse(line) as PeerLine).filter((line) => line.tokens_per_s)
}

async function measure({ kernels, model, lora, batch, rollouts, steps }: Case): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'leyden-bench-'))
  try {
    initCheckpoint(folder, model, 1)
    const learner = await openLearner({
      base: folder,
      backend: 'wasm',
      kernels,
      ...(lora && { lora }),
      value_head: false,
      optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0, clip_norm: 1 },
      tokens_per_pass: 3072,
      seed: 1,
    })
    const tf = await import('@tensorflow/tfjs-core')
    const rows = rowsOf(rollouts, batch, model.vocab_size)
    const step = async () => {
      await learner.accumulate(rows, ({ logprobs }) => ({ logprobs: logprobs.map((_, i) => Math.sin(i) / logprobs.length) }))
      await learner.step(1e-4)
    }
    await step()
    const { numTensors } = tf.memory()
    let [wallSeconds, cpuSeconds] = [Infinity, Infinity]
    for (let i = 0; i < steps; i++) {
      const [start, before] = [performance.now(), process.cpuUsage()]
      await step()
      const { user, system } = process.cpuUsage(before)
      wallSeconds = Math.min(wallSeconds, (performance.now() - start) / 1e3)
      cpuSeconds = Math.min(cpuSeconds, (user + system) / 1e6)
    }
    return {
      backend: learner.backend,
      parameters: learner.parameters,
      tokens: rows.reduce((sum, { tokens }) => sum + tokens.length, 0),
      wallSeconds,
      cpuSeconds,
      megabytes: Math.round(process.resourceUsage().maxRSS / 1024),
      growth: tf.memory().numTensors - numTensors,
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Four turns: a first prompt of 96 tokens, replies of 32, tool results of 48. Whole, or one row for every turn with all that went before. */
function rowsOf(rollouts: number, batch: Case['batch'], vocabulary: number): Row[] {
  const [first, reply, tool, turns] = [96, 32, 48, 4]
  const whole = first + turns * reply + (turns - 1) * tool
  return Array.from({ length: rollouts }, (_, rollout) => {
    const tokens = Int32Array.from({ length: whole }, (_, i) => (rollout * 131 + i * i * 17) % vocabulary)
    const replies = Array.from({ length: turns }, (_, turn) => first + turn * (reply + tool))
    const row = (begins: readonly number[], end: number): Row => ({
      tokens: tokens.subarray(0, end),
      scored: Uint8Array.from({ length: end }, (_, i) => (begins.some((begin) => i >= begin && i < begin + reply) ? 1 : 0)),
      temperature: 1,
    })
    return batch === 'merged' ? [row(replies, whole)] : replies.map((begin) => row([begin], begin + reply))
  }).flat()
}

if (process.argv[1] === import.meta.filename) console.log(JSON.stringify(await measure(JSON.parse(process.argv[2]!) as Case)))
