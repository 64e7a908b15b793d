// Training steps of random policies on rollouts of five turns, beside PyTorch on the same model and rows: tokens per second, memory, and whether
// either grows. Each case is a process of its own, since memory that WebAssembly once had it never gives back.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { initCheckpoint } from '../policy/checkpoint.ts'
import { hasHuggingFace } from './hugging_face.ts'
import { modelShape } from './models.ts'
import { formatTable } from './table.ts'
import type { TrainFigures, TrainJob, TrainRow } from './train_learner.ts'

export interface TrainBench {
  readonly models: readonly string[]
  readonly kernels: readonly string[]
  readonly threads: readonly number[]
  /** Measured steps of each case; the fastest counts. */
  readonly steps: number
  /** A Python that may have PyTorch and transformers. */
  readonly python: string
}

type Batch = 'merged' | 'row per turn'

interface Case {
  readonly model: string
  readonly by: 'blas' | 'decomp' | 'PyTorch'
  readonly threads: number
  readonly batch: Batch
  readonly rollouts: number
  readonly steps: number
}

const ROLLOUTS: Readonly<Record<string, number>> = { '50k': 32, '4m': 8, '135m': 2 }
/** Tokens of a rollout: its first prompt, five replies, four results of tools. 512 when merged. */
const [FIRST, REPLY, RESULT, TURNS] = [160, 32, 48, 5]
const CONTEXT = 1024

export function train({ models, kernels, threads, steps, python }: TrainBench): void {
  const peer = hasHuggingFace(python)
  const measured = models
    .flatMap((model) => casesOf(model, kernels, threads, steps, peer))
    .map((one) => ({ one, figures: alone(one, python) }))
  const peerOf = (of: Case, batch: Batch) =>
    measured.find(
      ({ one: { by, model, threads, ...one } }) => by === 'PyTorch' && model === of.model && threads === of.threads && one.batch === batch,
    )?.figures
  const times = (figures: TrainFigures, other: TrainFigures | undefined) =>
    other ? `${(other.wall_s / figures.wall_s).toFixed(2)}x, ${(other.cpu_s / figures.cpu_s).toFixed(2)}x` : ''
  const rows = measured.map(({ one, figures }) => [
    `${one.model}${isLora(one) ? ' LoRA' : ''}`,
    one.by,
    one.threads,
    one.batch,
    figures.tokens,
    figures.wall_s.toFixed(2),
    Math.round(figures.tokens / figures.wall_s),
    Math.round(figures.tokens / figures.cpu_s),
    figures.peak_mb,
    times(figures, peerOf(one, one.batch)),
    one.batch === 'merged' ? times(figures, peerOf(one, 'row per turn')) : '',
  ])
  const header = ['model', 'by', 'threads', 'rows', 'tokens', 's/step', 'tokens/s', 'per CPU-second', 'peak MB']
  console.log(formatTable([...header, 'PyTorch, same rows', 'PyTorch, row per turn'], rows))
  console.log('\nThe last two columns: how many times as fast as PyTorch, by time and by CPU time.')
  if (!peer && models.includes('4m')) console.log(`\n${python} has no torch, transformers and peft: PyTorch was not run.`)
  if (models.includes('4m')) for (const by of kernels) console.log(`\n${steadiness(by as Case['by'], python)}`)
}

/** Merged rows of every kind, and for a model of 4 M parameters also a row for each turn. */
function casesOf(model: string, kernels: readonly string[], threads: readonly number[], steps: number, peer: boolean): Case[] {
  const batches: readonly Batch[] = model === '4m' ? ['merged', 'row per turn'] : ['merged']
  const by = [...kernels, ...(peer && model === '4m' ? ['PyTorch'] : [])] as Case['by'][]
  return batches.flatMap((batch) =>
    threads.flatMap((count) =>
      // Our own kernels have one thread.
      by.flatMap((by) => (by === 'decomp' && count > 1 ? [] : { model, by, threads: count, batch, rollouts: ROLLOUTS[model] ?? 8, steps })),
    ),
  )
}

function steadiness(by: Case['by'], python: string): string {
  const { more_tensors, more_mb } = alone({ model: '4m', by, threads: 1, batch: 'merged', rollouts: 1, steps: 200 }, python)
  return `200 steps of 4m with ${by}: ${more_tensors} tensors and ${more_mb} MB resident more after the last than after the hundredth.`
}

const isLora = ({ model }: Case) => model === '135m'

function alone(one: Case, python: string): TrainFigures {
  const folder = mkdtempSync(join(tmpdir(), 'leyden-bench-'))
  try {
    const shape = modelShape(one.model)
    initCheckpoint(folder, { ...shape, max_position_embeddings: CONTEXT }, 1)
    const job: TrainJob = { folder, rows: rowsOf(one, shape.vocab_size), kernels: one.by, lora: isLora(one), steps: one.steps }
    const file = join(folder, 'job.json')
    writeFileSync(file, JSON.stringify(job))
    const [program, script] = one.by === 'PyTorch' ? [python, 'bench/train_peer.py'] : [process.execPath, 'dist/bench/train_learner.js']
    const count = String(one.threads)
    const env = { ...process.env, OPENBLAS_NUM_THREADS: count, OMP_NUM_THREADS: count, MKL_NUM_THREADS: count }
    const { stdout, stderr, status } = spawnSync(program, [script, file], { encoding: 'utf8', env })
    if (status !== 0) throw new Error(`${one.model} by ${one.by}: ${stderr}`)
    return JSON.parse(stdout) as TrainFigures
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Whole, or one row for every turn with all that went before; random tokens, the replies are scored. */
function rowsOf({ rollouts, batch }: Case, vocabulary: number): TrainRow[] {
  const whole = FIRST + TURNS * REPLY + (TURNS - 1) * RESULT
  const replies = Array.from({ length: TURNS }, (_, turn) => FIRST + turn * (REPLY + RESULT))
  return Array.from({ length: rollouts }, (_, rollout) => {
    const tokens = Array.from({ length: whole }, (_, i) => (rollout * 131 + i * i * 17) % vocabulary)
    const row = (begins: readonly number[], end: number): TrainRow => ({
      tokens: tokens.slice(0, end),
      scored: Array.from({ length: end }, (_, i) => (begins.some((begin) => i >= begin && i < begin + REPLY) ? 1 : 0)),
    })
    return batch === 'merged' ? [row(replies, whole)] : replies.map((begin) => row([begin], begin + REPLY))
  }).flat()
}
