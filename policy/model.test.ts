import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import type * as TF from '@tensorflow/tfjs-core'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'

import { openBackend } from './backend.ts'
import { forward, norm } from './block.ts'
import { readCheckpoint } from './checkpoint.ts'
import { buildModel, type Model } from './model.ts'

const FIXTURES = join(import.meta.dirname, '../test/fixtures/policy')
const MODELS = ['llama', 'llama-old-config-sharded-untied', 'llama3-rope-scaling', 'qwen2-bf16', 'qwen3']

interface Expected {
  readonly input_ids: readonly (readonly number[])[]
  readonly [logits: `logits_row${number}_pos${number}`]: readonly number[]
}

let tf: typeof TF
let tensors: number
let model: Model
beforeAll(async () => ({ tf } = await openBackend({ backend: 'wasm', kernels: 'decomp' })))
afterEach(() => {
  model.dispose()
  expect(tf.memory().numTensors, 'tensors left behind').toBe(tensors)
})

function load(name: string): Expected {
  tensors = tf.memory().numTensors
  const { config, weights } = readCheckpoint(join(FIXTURES, name))
  // The model behind these numbers had been cast to bfloat16 and back, with its rotary frequencies, which a loaded model computes in float32.
  const frequencies = name === 'qwen2-bf16' ? config.frequencies.map(bfloat16) : config.frequencies
  model = buildModel(tf, { ...config, frequencies }, weights)
  return JSON.parse(readFileSync(join(FIXTURES, name, 'expected.json'), 'utf8')) as Expected
}

function bfloat16(value: number): number {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer)
  return new Float32Array(Uint32Array.of(((bits! + 0x8000) >>> 16) << 16).buffer)[0]!
}

/** Logits of two sequences of 14 tokens, in one pass. */
function whole(ids: Expected['input_ids']): Float32Array {
  return tf.tidy(() => {
    const length = ids[0]!.length
    const positions = Int32Array.from(ids.flatMap((row) => row.map((_, i) => i)))
    const layout = model.layout(positions, ids.length, length, model.causalMask(length))
    let x = model.embed(Int32Array.from(ids.flat()))
    for (const weights of model.blocks) x = forward(tf, model.config, weights, layout, x).y
    const h = norm(tf, x, model.finalNorm, model.config.normEpsilon)
    return tf.matMul(h, model.output, false, true).dataSync<'float32'>()
  })
}

describe.each(MODELS)('%s', (name) => {
  test('gives the logits of transformers', () => {
    const expected = load(name)
    const { vocabulary } = model.config
    const logits = whole(expected.input_ids)
    for (const [row, position] of [
      [0, 0],
      [0, 13],
      [1, 7],
    ] as const) {
      const at = (row * 14 + position) * vocabulary
      expectClose(logits.subarray(at, at + vocabulary), expected[`logits_row${row}_pos${position}`]!)
    }
  })
})

/** Within 1e-4 of the largest. */
function expectClose(found: ArrayLike<number>, wanted: ArrayLike<number>): void {
  const largest = Array.from(wanted).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  expect(found.length).toBe(wanted.length)
  for (let i = 0; i < wanted.length; i++) expect(Math.abs(found[i]! - wanted[i]!), `place ${i}`).toBeLessThan(1e-4 * largest)
}
