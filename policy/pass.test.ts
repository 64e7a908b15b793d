import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import type * as TF from '@tensorflow/tfjs-core'
import { beforeAll, describe, expect, test } from 'vitest'

import { openBackend } from './backend.ts'
import type { Linear } from './block.ts'
import { readCheckpoint } from './checkpoint.ts'
import type { Row, ScoreGradients } from './learning.ts'
import { pairAdapters, readAdapterConfig } from './lora.ts'
import { type Adapters, buildModel, type Model, transpose } from './model.ts'
import { tensorShapes } from './model_config.ts'
import { pack } from './pack.ts'
import { backwardPass, forwardPass, scorePass } from './pass.ts'
import { readSafetensors } from './safetensors.ts'

const FIXTURES = join(import.meta.dirname, '../test/fixtures/policy')

interface Expected {
  readonly input_ids: readonly (readonly number[])[]
  readonly loss_mask: readonly (readonly number[])[]
  readonly token_logprobs: readonly (readonly number[])[]
  readonly loss: number
  readonly gradients: Readonly<
    Record<string, { shape: readonly number[]; norm: number; first: readonly number[]; last?: readonly number[] }>
  >
}

let tf: typeof TF
beforeAll(async () => ({ tf } = await openBackend({ backend: 'wasm', kernels: 'decomp' })))

interface Loaded {
  readonly model: Model
  readonly valueHead: Linear | null
  readonly expected: Expected
}

function load(name: string, withValues = false): Loaded {
  const folder = join(FIXTURES, name)
  const adapter = readAdapterConfig(folder)
  const { config, weights } = readCheckpoint(adapter ? join(folder, adapter.base) : folder)
  const adapters: Adapters = adapter
    ? pairAdapters(tensorShapes(config), adapter.rank, readSafetensors(adapter.file), adapter.file)
    : new Map()
  const frequencies = name === 'qwen2-bf16' ? config.frequencies.map(bfloat16) : config.frequencies // see model.test.ts
  const adapterScale = adapter ? adapter.alpha / adapter.rank : 1
  const model = buildModel(tf, { ...config, frequencies }, weights, {
    adapters,
    adapterScale,
    trainable: (name) => !adapter || name.includes('lora_'),
  })
  const valueHead = withValues
    ? { weight: tf.variable(tf.randomNormal([config.hidden, 1], 0, 1, 'float32', 5)), bias: tf.variable(tf.tensor1d([0.3])), adapter: null }
    : null
  return { model, valueHead, expected: JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8')) as Expected }
}

function bfloat16(value: number): number {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer)
  return new Float32Array(Uint32Array.of(((bits! + 0x8000) >>> 16) << 16).buffer)[0]!
}

/** Scores rows and takes gradients in passes of at most so many tokens; parameters' gradients as files hold them, [out, in]. */
async function differentiate(
  { model, valueHead }: Loaded,
  rows: readonly Row[],
  derivatives: (places: Int32Array) => ScoreGradients,
  tokensPerPass = 1024,
  room = 0,
) {
  const { passes, scored } = pack(rows, {
    tokens_per_pass: tokensPerPass,
    context: model.config.context,
    vocabulary: model.config.vocabulary,
  })
  const figures = { logprobs: new Float32Array(scored), entropies: new Float32Array(scored), values: new Float32Array(scored) }
  const gradients = new Map<TF.Tensor, TF.Tensor>()
  const policy = { model, blocks: model.blocks, valueHead }
  for (const pass of passes) {
    const { scores, tape } = await forwardPass(tf, policy, pass, { bytes: room })
    pass.places.forEach((place, i) => {
      for (const key of ['logprobs', 'entropies', 'values'] as const) figures[key][place] = scores[key]?.[i] ?? 0
    })
    backwardPass(tf, policy, tape, derivatives(pass.places), {
      add: (parameter, gradient) => {
        if (!(parameter instanceof tf.Variable)) return
        const sum = gradients.get(parameter)
        gradients.set(parameter, tf.keep(sum ? tf.add(sum, gradient()) : gradient()))
      },
    })
  }
  const byName = new Map(
    [...model.parameters].flatMap(([name, { tensor, transposed }]) => {
      const gradient = gradients.get(tensor)?.dataSync<'float32'>()
      return gradient ? [[name, transposed ? transpose(gradient, tensor.shape) : gradient] as const] : []
    }),
  )
  return { ...figures, byName, gradients }
}

const toRows = ({ input_ids, loss_mask }: Expected): Row[] =>
  input_ids.map((ids, i) => ({
    tokens: Int32Array.from(ids),
    scored: Uint8Array.from(loss_mask[i]!, (one, t) => (t === 0 ? 0 : one)),
    temperature: 1,
  }))

describe.each(['llama', 'llama-old-config-sharded-untied', 'llama3-rope-scaling', 'qwen2-bf16', 'qwen3', 'llama-lora'])('%s', (name) => {
  test('gives the log-probabilities, the loss and every gradient of transformers', async () => {
    const loaded = load(name)
    const { expected } = loaded
    const rows = toRows(expected)
    const count = rows.reduce((sum, { scored }) => sum + scored.reduce((s, one) => s + one, 0), 0)
    // The loss is the mean of -logprob.
    const { logprobs, byName } = await differentiate(loaded, rows, (places) => ({
      logprobs: new Float32Array(places.length).fill(-1 / count),
    }))

    const wanted = rows.flatMap(({ scored }, row) => expected.token_logprobs[row]!.filter((_, t) => scored[t + 1] === 1))
    expectClose(logprobs, wanted)
    expectClose([-logprobs.reduce((sum, value) => sum + value, 0) / count], [expected.loss])

    const found = name === 'llama-lora' ? new Map([...byName].map(([key, value]) => [`base_model.model.${key}`, value])) : byName
    expect([...found.keys()].sort()).toEqual(Object.keys(expected.gradients).sort())
    for (const [key, { norm, first, last }] of Object.entries(expected.gradients)) {
      const gradient = found.get(key)!
      expectClose([Math.hypot(...gradient)], [norm], key)
      for (const [part, values] of [
        [gradient.subarray(0, first.length), first],
        [gradient.subarray(gradient.length - (last?.length ?? 0)), last ?? []],
      ] as const) {
        for (let i = 0; i < values.length; i++) expect(Math.abs(part[i]! - values[i]!), key).toBeLessThan(1e-4 * norm)
      }
    }
  })
})

const random = (seed: number) => {
  const values = tf.randomUniform([64], -1, 1, 'float32', seed).dataSync<'float32'>()
  return (i: number) => values[i % 64]!
}

/** Rows of one vocabulary of 96, of these lengths, all but the first two tokens scored. */
const rowsOf = (lengths: readonly number[]): Row[] =>
  lengths.map((length, row) => ({
    tokens: Int32Array.from({ length }, (_, i) => (row * 31 + i * 17 + 3) % 96),
    scored: Uint8Array.from({ length }, (_, i) => (i > 1 ? 1 : 0)),
    temperature: 0.7 + 0.2 * (row % 3),
  }))

/** A loss that is linear in every figure, so that its derivatives are these numbers. */
const mixedDerivatives = (places: Int32Array): ScoreGradients => ({
  logprobs: Float32Array.from(places, random(1)),
  entropies: Float32Array.from(places, random(2)),
  values: Float32Array.from(places, random(3)),
})

test.each(['qwen2-bf16', 'qwen3', 'llama-lora'])(
  '%s: gradients of log-probability, entropy and value agree with finite differences',
  async (name) => {
    const loaded = load(name, true)
    const rows = rowsOf([9, 6])
    const { gradients } = await differentiate(loaded, rows, mixedDerivatives)
    const [pass] = pack(rows, { tokens_per_pass: 64, context: 128, vocabulary: 96 }).passes
    const loss = async () => {
      const { logprobs, entropies, values } = await scorePass(tf, { ...loaded, blocks: loaded.model.blocks }, pass!)
      const weights = mixedDerivatives(pass!.places)
      const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0)
      return dot(logprobs, weights.logprobs) + dot(entropies, weights.entropies!) + dot(values!, weights.values!)
    }
    // Along one direction of every tensor, mostly its gradient's, partly random: one number that depends on all of the gradient.
    for (const [parameter, gradient] of gradients) {
      const unit = (tensor: TF.Tensor) => tf.div(tensor, tf.norm(tensor))
      const direction = tf.add(unit(gradient), tf.mul(unit(tf.randomNormal(parameter.shape, 0, 1, 'float32', 11)), 0.5))
      const original = tf.clone(parameter)
      const along = tf.sum(tf.mul(gradient, direction)).dataSync()[0]!
      const at = async (step: number) => {
        ;(parameter as TF.Variable).assign(tf.add(original, tf.mul(direction, step)))
        return loss()
      }
      const difference = ((await at(5e-3)) - (await at(-5e-3))) / 1e-2
      ;(parameter as TF.Variable).assign(original)
      expect(Math.abs(along / difference - 1), `shape [${parameter.shape.join()}]: ${along} against ${difference}`).toBeLessThan(0.01)
    }
  },
)

test('rows of mixed lengths in one pass score as each alone, and so do their gradients in sum', async () => {
  const loaded = load('qwen3', true)
  const rows = rowsOf([12, 5, 7, 3, 20, 9, 2, 6, 4])
  const together = await differentiate(loaded, rows, mixedDerivatives, 64, 1e9)
  let at = 0
  const sums = new Map<string, Float64Array>()
  for (const row of rows) {
    const first = at
    const alone = await differentiate(loaded, [row], (places) => mixedDerivatives(places.map((place) => place + first)), 64)
    for (const key of ['logprobs', 'entropies', 'values'] as const)
      expectClose(together[key].subarray(at, at + alone[key].length), alone[key])
    at += alone.logprobs.length
    for (const [name, gradient] of alone.byName) {
      const sum = sums.get(name) ?? new Float64Array(gradient.length)
      gradient.forEach((value, i) => (sum[i]! += value))
      sums.set(name, sum)
    }
  }
  for (const [name, gradient] of together.byName) expectClose(gradient, sums.get(name)!, name)
})

test('what is kept and what is computed again give the same gradients to the last bit', async () => {
  const loaded = load('llama')
  const rows = rowsOf([12, 5, 7])
  const derivatives = (places: Int32Array): ScoreGradients => ({ logprobs: Float32Array.from(places, random(4)) })
  const kept = await differentiate(loaded, rows, derivatives, 64, 1e9)
  const again = await differentiate(loaded, rows, derivatives, 64, 0)
  for (const [name, gradient] of kept.byName) expect(again.byName.get(name)).toEqual(gradient)
})

/** Within 1e-4 of the largest. */
function expectClose(found: ArrayLike<number>, wanted: ArrayLike<number>, what = ''): void {
  const largest = Array.from(wanted).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  expect(found.length).toBe(wanted.length)
  for (let i = 0; i < wanted.length; i++) expect(Math.abs(found[i]! - wanted[i]!), `${what} place ${i}`).toBeLessThanOrEqual(1e-4 * largest)
}
