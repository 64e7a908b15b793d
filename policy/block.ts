// One decoder block, forward and backward, written out: derivatives by hand need no tape, so that what is kept between the two passes is a decision
// (policy/pass.ts) and not an accident. N = batch · length tokens, D = hidden, H = heads, K = key-value heads, G = H / K, W = head width.

import type * as TF from '@tensorflow/tfjs-core'

import type { ModelConfig } from './model_config.ts'

type T = TF.Tensor

export interface Linear {
  /** [in, out]: files hold the transpose. */
  readonly weight: T
  readonly bias: T | null
  /** Low-rank addition: scale · (x·a)·b with a [in, r], b [r, out]. */
  readonly adapter: { readonly a: T; readonly b: T; readonly scale: number } | null
}

export interface BlockWeights {
  readonly inputNorm: T
  readonly q: Linear
  readonly k: Linear
  readonly v: Linear
  readonly o: Linear
  /** [W] each; null where the architecture has none. */
  readonly qNorm: T | null
  readonly kNorm: T | null
  readonly outputNorm: T
  readonly gate: Linear
  readonly up: Linear
  readonly down: Linear
}

/** How the N rows of a block's input lie: sequence after sequence, each `length` long. */
export interface Layout {
  readonly batch: number
  readonly length: number
  /** [N, 1, W] of each token's position; the first half of `sin` is negated (see `rotate`). */
  readonly cos: T
  readonly sin: T
  /** [W, W] Swaps the halves of a head, as a product: slices and concatenations cost ten times as much in WebAssembly. */
  readonly swap: T
  /** Added to attention scores: 0 where a token may look, -1e9 where not. [batch or 1, 1, G · length, length] */
  readonly mask: T
}

/** Where gradients go. Those of parameters that are not trained are never computed. */
export interface Gradients {
  add(parameter: T, gradient: () => T): void
}

/** What the backward pass needs of the forward pass. */
export type BlockTape = Readonly<
  Record<'x' | 'h' | 'q0' | 'k0' | 'q' | 'k' | 'v' | 'attention' | 'mixed' | 'x2' | 'h2' | 'gate' | 'up' | 'sigmoid' | 'inner', T>
>

/** x [N, D] to y [N, D]. The caller disposes of the tape, or keeps it for `backward`. Call within tf.tidy. */
export function forward(tf: typeof TF, config: ModelConfig, weights: BlockWeights, layout: Layout, x: T): { y: T; tape: BlockTape } {
  const { heads, kvHeads, headWidth } = config
  const rows = x.shape[0]!
  const h = norm(tf, x, weights.inputNorm, config.normEpsilon)
  const q0 = tf.reshape(linear(tf, h, weights.q), [rows, heads, headWidth])
  const k0 = tf.reshape(linear(tf, h, weights.k), [rows, kvHeads, headWidth])
  const v0 = tf.reshape(linear(tf, h, weights.v), [rows, kvHeads, headWidth])
  const normal = (z: T, weight: T | null) => (weight ? norm(tf, z, weight, config.normEpsilon) : z)
  const rotated = (z: T) => rotate(tf, z, layout, layout.sin)
  // The scores' scale is applied to the queries, which are fewer.
  const q = toHeads(tf, tf.mul(rotated(normal(q0, weights.qNorm)), scale(config)), layout, kvHeads)
  const k = toHeads(tf, rotated(normal(k0, weights.kNorm)), layout, kvHeads)
  const v = toHeads(tf, v0, layout, kvHeads)

  const attention = masked(tf, tf.matMul(q, k, false, true), layout, kvHeads)
  const mixed = fromHeads(tf, tf.matMul(attention, v), layout, heads)
  const x2 = tf.add(x, linear(tf, mixed, weights.o))

  const h2 = norm(tf, x2, weights.outputNorm, config.normEpsilon)
  const gate = linear(tf, h2, weights.gate)
  const up = linear(tf, h2, weights.up)
  const sigmoid = tf.sigmoid(gate)
  const inner = tf.mul(tf.mul(gate, sigmoid), up)
  const y = tf.add(x2, linear(tf, inner, weights.down))
  return { y, tape: { x, h, q0, k0, q, k, v, attention, mixed, x2, h2, gate, up, sigmoid, inner } }
}

/** dL/dx from dL/dy; parameters' gradients go to `gradients`. Call within tf.tidy. */
export function backward(
  tf: typeof TF,
  config: ModelConfig,
  weights: BlockWeights,
  layout: Layout,
  tape: BlockTape,
  dy: T,
  gradients: Gradients,
): T {
  const { heads, kvHeads, headWidth, normEpsilon } = config
  const rows = dy.shape[0]!

  // y = x2 + down(silu(gate) · up), silu(g) = g·σ(g), silu'(g) = σ + g·σ·(1 - σ)
  const dInner = linearBackward(tf, tape.inner, weights.down, dy, gradients)
  const silu = tf.mul(tape.gate, tape.sigmoid)
  const slope = tf.add(tape.sigmoid, tf.sub(silu, tf.mul(silu, tape.sigmoid)))
  const dUp = tf.mul(dInner, silu)
  const dGate = tf.mul(tf.mul(dInner, tape.up), slope)
  const dH2 = tf.add(linearBackward(tf, tape.h2, weights.gate, dGate, gradients), linearBackward(tf, tape.h2, weights.up, dUp, gradients))
  const dX2 = tf.add(dy, normBackward(tf, tape.x2, weights.outputNorm, normEpsilon, dH2, gradients))

  // x2 = x + o(attention · v), attention = softmax(q · kᵀ + mask)
  const dMixed = toHeads(
    tf,
    tf.reshape(linearBackward(tf, tape.mixed, weights.o, dX2, gradients), [rows, heads, headWidth]),
    layout,
    kvHeads,
  )
  const dV = tf.matMul(tape.attention, dMixed, true)
  const dAttention = tf.mul(tape.attention, tf.matMul(dMixed, tape.v, false, true))
  const dScores = tf.sub(dAttention, tf.mul(tape.attention, tf.sum(dAttention, -1, true)))
  const dQ = tf.matMul(dScores, tape.k)
  const dK = tf.matMul(dScores, tape.q, true)

  // The inverse of a rotation is the rotation by the negative angle.
  const back = tf.neg(layout.sin)
  const derotated = (z: T, count: number) => rotate(tf, tf.reshape(fromHeads(tf, z, layout, count), [rows, count, headWidth]), layout, back)
  const denormal = (z0: T, weight: T | null, dz: T) => (weight ? normBackward(tf, z0, weight, normEpsilon, dz, gradients) : dz)
  const dQ0 = denormal(tape.q0, weights.qNorm, tf.mul(derotated(dQ, heads), scale(config)))
  const dK0 = denormal(tape.k0, weights.kNorm, derotated(dK, kvHeads))
  const flat = (z: T) => tf.reshape(z, [rows, -1])
  const dH = tf.addN([
    linearBackward(tf, tape.h, weights.q, flat(dQ0), gradients),
    linearBackward(tf, tape.h, weights.k, flat(dK0), gradients),
    linearBackward(tf, tape.h, weights.v, fromHeads(tf, dV, layout, kvHeads), gradients),
  ])
  return tf.add(dX2, normBackward(tf, tape.x, weights.inputNorm, normEpsilon, dH, gradients))
}

function scale({ headWidth }: ModelConfig): number {
  return 1 / Math.sqrt(headWidth)
}

/** RMSNorm over the last axis: x / rms(x) · weight. */
export function norm(tf: typeof TF, x: T, weight: T, epsilon: number): T {
  return tf.mul(tf.mul(x, inverseRms(tf, x, epsilon)), weight)
}

function inverseRms(tf: typeof TF, x: T, epsilon: number): T {
  return tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), epsilon))
}

/** With n = x / rms: dx = (g - n · mean(g · n)) / rms, where g = dy · weight; dweight = Σ dy · n. */
export function normBackward(tf: typeof TF, x: T, weight: T, epsilon: number, dy: T, gradients: Gradients): T {
  const inverse = inverseRms(tf, x, epsilon)
  const n = tf.mul(x, inverse)
  const g = tf.mul(dy, weight)
  gradients.add(weight, () => sumRows(tf, tf.mul(dy, n)))
  return tf.mul(tf.sub(g, tf.mul(n, tf.mean(tf.mul(g, n), -1, true))), inverse)
}

export function linear(tf: typeof TF, x: T, { weight, bias, adapter }: Linear): T {
  let y = tf.matMul(x, weight)
  if (bias) y = tf.add(y, bias)
  return adapter ? tf.add(y, tf.mul(tf.matMul(tf.matMul(x, adapter.a), adapter.b), adapter.scale)) : y
}

export function linearBackward(tf: typeof TF, x: T, { weight, bias, adapter }: Linear, dy: T, gradients: Gradients): T {
  gradients.add(weight, () => tf.matMul(x, dy, true))
  if (bias) gradients.add(bias, () => sumRows(tf, dy))
  const dx = tf.matMul(dy, weight, false, true)
  if (!adapter) return dx
  const scaled = tf.mul(dy, adapter.scale)
  gradients.add(adapter.b, () => tf.matMul(tf.matMul(x, adapter.a), scaled, true))
  const dLow = tf.matMul(scaled, adapter.b, false, true)
  gradients.add(adapter.a, () => tf.matMul(x, dLow, true))
  return tf.add(dx, tf.matMul(dLow, adapter.a, false, true))
}

/** [..., C] to [C]. As a product with ones: reductions over the first axis are ten times slower in WebAssembly. */
function sumRows(tf: typeof TF, x: T): T {
  const columns = x.shape.at(-1)!
  const flat = tf.reshape(x, [-1, columns])
  return tf.reshape(tf.matMul(tf.ones([1, flat.shape[0]!]), flat), [columns])
}

/** Rotary embedding, pairs (i, i + W/2): x · cos + swapped(x) · sin, where sin is negative for the first half. x [N, heads, W]. */
function rotate(tf: typeof TF, x: T, { cos, swap }: Layout, sin: T): T {
  const shape = x.shape as [number, number, number]
  const swapped = tf.reshape(tf.matMul(tf.reshape(x, [-1, shape[2]]), swap), shape)
  return tf.add(tf.mul(x, cos), tf.mul(swapped, sin))
}

/** [N, heads, W] to [batch · K, (heads / K) · length, W]: the query heads that share keys are stacked, so that nothing is repeated for them. */
function toHeads(tf: typeof TF, x: T, { batch, length }: Layout, kvHeads: number): T {
  const [, heads, width] = x.shape as [number, number, number]
  const shape: [number, number, number] = [batch * kvHeads, (heads / kvHeads) * length, width]
  return tf.reshape(tf.transpose(tf.reshape(x, [batch, length, heads, width]), [0, 2, 1, 3]), shape)
}

/** The inverse of toHeads, flat: [N, heads · W]. */
function fromHeads(tf: typeof TF, x: T, { batch, length }: Layout, heads: number): T {
  const width = x.shape[2]!
  const flat: [number, number] = [batch * length, heads * width]
  return tf.reshape(tf.transpose(tf.reshape(x, [batch, heads, length, width]), [0, 2, 1, 3]), flat)
}

/** Softmax of masked scores [batch · K, G · length, length]. */
function masked(tf: typeof TF, scores: T, { batch, mask }: Layout, kvHeads: number): T {
  const [, queries, keys] = scores.shape as [number, number, number]
  return tf.softmax(tf.reshape(tf.add(tf.reshape(scores, [batch, kvHeads, queries, keys]), mask), scores.shape as [number, number, number]))
}
