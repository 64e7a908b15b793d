// A model's weights on the device, and what stands before its blocks: embedding, positions, masks. The blocks are in block.ts, the whole in pass.ts.
// The decoder computes the same function in forward.ts; a test holds the two together.

import type * as TF from '@tensorflow/tfjs-core'

import type { BlockWeights, Layout, Linear } from './block.ts'
import { type ModelConfig, tensorShapes } from './model_config.ts'
import type { Weight } from './safetensors.ts'

export type Adapters = ReadonlyMap<string, { readonly a: Weight; readonly b: Weight }>

export interface ModelOptions {
  /** By name: which parameters are variables, to be trained. None where left out. */
  readonly trainable?: (name: string) => boolean
  /** Kept apart from the weights, as x·W + scale · (x·a)·b; by the name of the adapted matrix. */
  readonly adapters?: Adapters
  readonly adapterScale?: number
}

export interface Model {
  readonly config: ModelConfig
  readonly blocks: readonly BlockWeights[]
  /** [V, D] */
  readonly embedding: TF.Tensor
  /** [D] */
  readonly finalNorm: TF.Tensor
  /** [V, D]: the embedding itself where the two are tied. */
  readonly output: TF.Tensor
  /** Every parameter on the device by its Hugging Face name; `transposed` ones are [in, out] here and [out, in] in files. */
  readonly parameters: ReadonlyMap<string, Parameter>
  /** tokens [N] to [N, D] */
  embed(tokens: Int32Array): TF.Tensor
  /** For `batch` sequences of `length` tokens at these positions [batch · length]. The caller disposes of its tensors, or calls within tf.tidy. */
  layout(positions: Int32Array, batch: number, length: number, mask: TF.Tensor): Layout
  /** [1, 1, G · length, length]: everything up to itself. */
  causalMask(length: number): TF.Tensor
  dispose(): void
}

export interface Parameter {
  /** A variable where it is trainable. */
  readonly tensor: TF.Tensor
  readonly transposed: boolean
  readonly trainable: boolean
}

/** What cannot be seen: far below any score, far above minus infinity, which would make NaN of a row that sees nothing. */
export const UNSEEN = -1e9

/** Puts weights on the device. `weights` are those of readCheckpoint; they are copied. */
export function buildModel(tf: typeof TF, config: ModelConfig, weights: ReadonlyMap<string, Weight>, options: ModelOptions = {}): Model {
  const { trainable = () => false, adapters = new Map() as Adapters, adapterScale = 1 } = options
  const parameters = new Map<string, Parameter>()
  const put = (name: string, { shape, data }: Weight, transposed: boolean): TF.Tensor => {
    const tensor = tf.tidy(() => {
      const values = transposed ? tf.tensor(transpose(data, shape), [shape[1]!, shape[0]!]) : tf.tensor(data, [...shape])
      return trainable(name) ? tf.variable(values) : tf.keep(values)
    })
    parameters.set(name, { tensor, transposed, trainable: trainable(name) })
    return tensor
  }
  const load = (name: string) => put(name, weights.get(name)!, name.endsWith('proj.weight'))
  const has = tensorShapes(config)
  const optional = (name: string) => (has.has(name) ? load(name) : null)
  const linear = (name: string): Linear => {
    const pair = adapters.get(`${name}.weight`)
    return {
      weight: load(`${name}.weight`),
      bias: optional(`${name}.bias`),
      adapter: pair
        ? { a: put(`${name}.lora_A.weight`, pair.a, true), b: put(`${name}.lora_B.weight`, pair.b, true), scale: adapterScale }
        : null,
    }
  }
  const embedding = load('model.embed_tokens.weight')
  const blocks = Array.from({ length: config.layers }, (_, layer): BlockWeights => {
    const at = `model.layers.${layer}`
    return {
      inputNorm: load(`${at}.input_layernorm.weight`),
      q: linear(`${at}.self_attn.q_proj`),
      k: linear(`${at}.self_attn.k_proj`),
      v: linear(`${at}.self_attn.v_proj`),
      o: linear(`${at}.self_attn.o_proj`),
      qNorm: optional(`${at}.self_attn.q_norm.weight`),
      kNorm: optional(`${at}.self_attn.k_norm.weight`),
      outputNorm: load(`${at}.post_attention_layernorm.weight`),
      gate: linear(`${at}.mlp.gate_proj`),
      up: linear(`${at}.mlp.up_proj`),
      down: linear(`${at}.mlp.down_proj`),
    }
  })
  const finalNorm = load('model.norm.weight')
  const output = config.tied ? embedding : load('lm_head.weight')
  const rotations = rotationTable(config)
  const group = config.heads / config.kvHeads
  const width = config.headWidth
  const swap = new Float32Array(width * width)
  for (let i = 0; i < width; i++) swap[i * width + ((i + width / 2) % width)] = 1

  return {
    config,
    blocks,
    embedding,
    finalNorm,
    output,
    parameters,
    embed: (tokens) => tf.tidy(() => tf.gather(embedding, tf.tensor1d(tokens, 'int32'))),
    layout: (positions, batch, length, mask) => {
      const { cos, sin } = rotations(positions)
      const shape: [number, number, number] = [positions.length, 1, width]
      return { batch, length, mask, cos: tf.tensor(cos, shape), sin: tf.tensor(sin, shape), swap: tf.tensor2d(swap, [width, width]) }
    },
    causalMask: (length) => {
      const mask = new Float32Array(group * length * length)
      for (let row = 0; row < group * length; row++) mask.fill(UNSEEN, row * length + (row % length) + 1, (row + 1) * length)
      return tf.tensor(mask, [1, 1, group * length, length])
    },
    dispose: () => {
      for (const { tensor } of parameters.values()) tensor.dispose()
    },
  }
}

/** Row-major [rows, columns] to [columns, rows]. */
export function transpose(data: Float32Array, [rows, columns]: readonly number[]): Float32Array {
  const out = new Float32Array(data.length)
  for (let r = 0; r < rows!; r++) for (let c = 0; c < columns!; c++) out[c * rows! + r] = data[r * columns! + c]!
  return out
}

/** Cosines and sines of positions, [N · W] each, from tables that grow with the farthest position asked for. */
function rotationTable(config: ModelConfig): (positions: Int32Array) => { cos: Float32Array; sin: Float32Array } {
  const { frequencies } = config
  const half = frequencies.length
  const width = 2 * half
  let cosines = new Float32Array(0)
  let sines = new Float32Array(0)
  const grow = (count: number) => {
    cosines = new Float32Array(count * width)
    sines = new Float32Array(count * width)
    for (let position = 0; position < count; position++) {
      for (let i = 0; i < half; i++) {
        const at = position * width + i
        cosines[at] = cosines[at + half] = Math.cos(position * frequencies[i]!)
        sines[at + half] = Math.sin(position * frequencies[i]!)
        sines[at] = -sines[at + half]!
      }
    }
  }
  return (positions) => {
    const farthest = positions.reduce((most, position) => Math.max(most, position), 0)
    if (farthest * width >= cosines.length) grow(Math.max(64, 2 * (farthest + 1)))
    const cos = new Float32Array(positions.length * width)
    const sin = new Float32Array(positions.length * width)
    positions.forEach((position, i) => {
      cos.set(cosines.subarray(position * width, (position + 1) * width), i * width)
      sin.set(sines.subarray(position * width, (position + 1) * width), i * width)
    })
    return { cos, sin }
  }
}
