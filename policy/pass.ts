// One pass over the whole model: forward keeps each block's input, and as much of its inside as there is room for; backward goes block by block and
// computes again what was not kept. So memory grows with the input of every block, not with what happens within it.

import type * as TF from '@tensorflow/tfjs-core'

import {
  backward,
  type BlockTape,
  type BlockWeights,
  forward,
  type Gradients,
  type Layout,
  linear,
  type Linear,
  linearBackward,
  norm,
  normBackward,
} from './block.ts'
import { type HeadGradients, scoreTargets, scoreTargetsBackward } from './head.ts'
import type { ScoreGradients } from './learning.ts'
import { type Model, UNSEEN } from './model.ts'
import type { ModelConfig } from './model_config.ts'
import type { Pass } from './pack.ts'

type T = TF.Tensor

/** Figures of the pass's scored tokens, in the order of `pass.sources`. */
export interface PassScores {
  readonly logprobs: Float32Array
  readonly entropies: Float32Array
  readonly values: Float32Array | null
}

/** What `backwardPass` needs; it, or `disposePass`, frees it. */
export interface PassTape {
  readonly pass: Pass
  readonly layout: Layout
  /** [N, D] of every block; null where the block's own tape was kept. */
  readonly inputs: readonly (T | null)[]
  readonly tapes: readonly (BlockTape | null)[]
  /** [n, D] what the last block gave for the tokens before the scored ones. */
  readonly top: T
}

/** Bytes that may still be spent on keeping the inside of blocks. */
export interface Room {
  bytes: number
}

export interface PassModel {
  readonly model: Model
  /** Weights that the blocks run with: the model's, or others of the same shape. */
  readonly blocks: readonly BlockWeights[]
  /** [D, 1] and a bias: a value for every hidden state. */
  readonly valueHead: Linear | null
}

/** Scores without keeping anything. */
export async function scorePass(tf: typeof TF, policy: PassModel, pass: Pass): Promise<PassScores> {
  const { scores, tape } = await forwardPass(tf, policy, pass, null)
  disposePass(tf, tape)
  return scores
}

/** `room` null: nothing will be asked of `tape` but its disposal. */
export async function forwardPass(
  tf: typeof TF,
  { model, blocks, valueHead }: PassModel,
  pass: Pass,
  room: Room | null,
): Promise<{ scores: PassScores; tape: PassTape }> {
  const { config } = model
  const layout = passLayout(tf, model, pass)
  const bytes = tapeBytes(config, pass)
  const inputs: (T | null)[] = []
  const tapes: (BlockTape | null)[] = []
  let x = model.embed(pass.tokens)
  for (const weights of blocks) {
    const keep = room !== null && room.bytes >= bytes
    if (keep) room.bytes -= bytes
    const { y, tape } = tidy(tf, () => {
      const both = forward(tf, config, weights, layout, x)
      return keep ? both : { y: both.y, tape: null }
    })
    // A tape holds the input too.
    inputs.push(room === null || keep ? null : x)
    tapes.push(tape)
    if (room === null) x.dispose()
    x = y
  }
  const top = tf.tidy(() => tf.gather(x, tf.tensor1d(pass.sources, 'int32')))
  x.dispose()

  const h = tf.tidy(() => norm(tf, top, model.finalNorm, config.normEpsilon))
  const figures = await scoreTargets(tf, h, model.output, pass)
  const values = valueHead && tf.tidy(() => linear(tf, h, valueHead))
  const scores = { ...figures, values: values && (await values.data<'float32'>()) }
  tf.dispose([h, ...(values ? [values] : [])])
  return { scores, tape: { pass, layout, inputs, tapes, top } }
}

/** Adds the parameters' gradients to `gradients`, and frees the tape. */
export function backwardPass(
  tf: typeof TF,
  { model, blocks, valueHead }: PassModel,
  tape: PassTape,
  dScores: ScoreGradients,
  gradients: Gradients,
): void {
  const { config } = model
  const { pass, layout } = tape
  let dx = tf.tidy(() => {
    const h = norm(tf, tape.top, model.finalNorm, config.normEpsilon)
    const head: HeadGradients = { logprobs: dScores.logprobs, entropies: dScores.entropies ?? null }
    let dh = scoreTargetsBackward(tf, h, model.output, pass, head, gradients)
    if (valueHead && dScores.values) {
      const dValues = tf.tensor2d(dScores.values, [dScores.values.length, 1])
      dh = tf.add(dh, linearBackward(tf, h, valueHead, dValues, gradients))
    }
    const dTop = normBackward(tf, tape.top, model.finalNorm, config.normEpsilon, dh, gradients)
    return tf.unsortedSegmentSum(dTop, tf.tensor1d(pass.sources, 'int32'), pass.tokens.length)
  }) as T
  for (let layer = blocks.length - 1; layer >= 0; layer--) {
    const [weights, dy] = [blocks[layer]!, dx]
    const [kept, input] = [tape.tapes[layer], tape.inputs[layer]]
    dx = tf.tidy(() => backward(tf, config, weights, layout, kept ?? forward(tf, config, weights, layout, input!).tape, dy, gradients))
    dy.dispose()
    free(tf, kept, input)
  }
  tf.tidy(() => gradients.add(model.embedding, () => tf.unsortedSegmentSum(dx, tf.tensor1d(pass.tokens, 'int32'), config.vocabulary)))
  dx.dispose()
  disposeLayout(tf, tape)
}

export function disposePass(tf: typeof TF, tape: PassTape): void {
  tape.tapes.forEach((kept, layer) => free(tf, kept, tape.inputs[layer]))
  disposeLayout(tf, tape)
}

function disposeLayout(tf: typeof TF, { layout, top }: PassTape): void {
  tf.dispose([layout.cos, layout.sin, layout.swap, layout.mask, top])
}

function free(tf: typeof TF, kept: BlockTape | null | undefined, input: T | null | undefined): void {
  tf.dispose([...Object.values(kept ?? {}), ...(input ? [input] : [])])
}

function passLayout(tf: typeof TF, model: Model, pass: Pass): Layout {
  return model.layout(pass.positions, pass.batch, pass.length, pass.mixed ? rowMask(tf, model.config, pass) : model.causalMask(pass.length))
}

/** [batch, 1, G · length, length]: a token sees its own row, from its beginning up to itself. */
function rowMask(tf: typeof TF, { heads, kvHeads }: ModelConfig, { batch, length, begins }: Pass): T {
  const group = heads / kvHeads
  const mask = new Float32Array(batch * group * length * length)
  for (let row = 0; row < batch * group * length; row++) {
    const query = row % length
    const slot = Math.floor(row / (group * length))
    mask.fill(UNSEEN, row * length, row * length + begins[slot * length + query]!)
    mask.fill(UNSEEN, row * length + query + 1, (row + 1) * length)
  }
  return tf.tensor(mask, [batch, 1, group * length, length])
}

/** Of a BlockTape. */
function tapeBytes({ hidden, heads, kvHeads, headWidth, feedForward }: ModelConfig, { batch, length }: Pass): number {
  const perToken = 4 * hidden + 3 * headWidth * (heads + kvHeads) + 4 * feedForward + heads * length
  return 4 * batch * length * perToken
}

/** tf.tidy for objects with tensors in them, which its own type does not describe. */
function tidy<R extends object>(tf: typeof TF, work: () => R): R {
  return tf.tidy(work as unknown as () => TF.TensorContainer) as unknown as R
}
