// From the hidden state before a token to its log-probability, and back. In chunks of rows, since logits are [n, V] and V may be 150,000.
//   log p(t) = l_t - Z,  H = Z - Σ p·l,  Z = log Σ exp l,  l = logits / temperature
//   ∂ log p(t) / ∂l = 1[t] - p,  ∂H / ∂l = -p · (l - Z + H)

import type * as TF from '@tensorflow/tfjs-core'

import type { Gradients } from './block.ts'

type T = TF.Tensor

export interface Scored {
  /** [n] */
  readonly targets: Int32Array
  /** [n] 1 / temperature */
  readonly sharpness: Float32Array
}

/** Derivatives of the loss, [n] each; null: zero. */
export interface HeadGradients {
  readonly logprobs: Float32Array
  readonly entropies: Float32Array | null
}

/** Floats of one chunk of logits: 32 MB. */
const CHUNK = 2 ** 23

/** h [n, D], output [V, D] to figures of the n targets. Call outside of tf.tidy. */
export async function scoreTargets(
  tf: typeof TF,
  h: T,
  output: T,
  scored: Scored,
): Promise<{ logprobs: Float32Array; entropies: Float32Array }> {
  const n = scored.targets.length
  const [logprobs, entropies] = [new Float32Array(n), new Float32Array(n)]
  for (const [from, to] of chunks(n, output.shape[0]!)) {
    const pair = tf.tidy(() => {
      const { logits, logZ, entropy } = distribution(tf, h, output, scored, from, to)
      const vocabulary = output.shape[0]!
      const places = scored.targets.slice(from, to).map((target, i) => i * vocabulary + target)
      return [tf.sub(tf.gather(tf.reshape(logits, [-1]), tf.tensor1d(places, 'int32')), logZ), entropy] as const
    })
    logprobs.set(await pair[0].data<'float32'>(), from)
    entropies.set(await pair[1].data<'float32'>(), from)
    tf.dispose(pair as unknown as T[])
  }
  return { logprobs, entropies }
}

/** dL/dh [n, D]; the output matrix's gradient goes to `gradients`. Call within tf.tidy. */
export function scoreTargetsBackward(tf: typeof TF, h: T, output: T, scored: Scored, dScores: HeadGradients, gradients: Gradients): T {
  const vocabulary = output.shape[0]!
  const column = (values: Float32Array, from: number, to: number) => tf.tensor2d(values.subarray(from, to), [to - from, 1])
  const parts = chunks(scored.targets.length, vocabulary).map(([from, to]) =>
    tf.tidy(() => {
      const { p, logits, logZ, entropy } = distribution(tf, h, output, scored, from, to)
      const dLogprob = column(dScores.logprobs, from, to)
      const targets = tf.oneHot(tf.tensor1d(scored.targets.subarray(from, to), 'int32'), vocabulary)
      let dLogits: T = tf.mul(tf.sub(targets, p), dLogprob)
      if (dScores.entropies) {
        const surprise = tf.add(tf.sub(logits, tf.expandDims(logZ, 1)), tf.expandDims(entropy, 1))
        dLogits = tf.sub(dLogits, tf.mul(tf.mul(p, surprise), column(dScores.entropies, from, to)))
      }
      if (scored.sharpness.some((value) => value !== 1)) dLogits = tf.mul(dLogits, column(scored.sharpness, from, to))
      gradients.add(output, () => tf.matMul(dLogits, rowsOf(tf, h, from, to), true))
      return tf.matMul(dLogits, output)
    }),
  )
  return parts.length === 1 ? parts[0]! : tf.concat(parts, 0)
}

function distribution(
  tf: typeof TF,
  h: T,
  output: T,
  { sharpness }: Scored,
  from: number,
  to: number,
): Record<'logits' | 'p' | 'logZ' | 'entropy', T> {
  let logits: T = tf.matMul(rowsOf(tf, h, from, to), output, false, true)
  if (sharpness.some((value) => value !== 1)) logits = tf.mul(logits, tf.tensor2d(sharpness.subarray(from, to), [to - from, 1]))
  const p = tf.softmax(logits)
  // The largest probability is exp(max - Z): exact where a rare token's own probability would underflow, and no slow exp in WebAssembly.
  const logZ = tf.sub(tf.max(logits, -1), tf.log(tf.max(p, -1)))
  return { logits, p, logZ, entropy: tf.sub(logZ, tf.sum(tf.mul(p, logits), -1)) }
}

function rowsOf(tf: typeof TF, h: T, from: number, to: number): T {
  return to - from === h.shape[0] ? h : tf.slice(h, [from, 0], [to - from, h.shape[1]!])
}

function chunks(n: number, vocabulary: number): [number, number][] {
  const step = Math.max(1, Math.floor(CHUNK / vocabulary))
  return Array.from({ length: Math.ceil(n / step) }, (_, i) => [i * step, Math.min(n, (i + 1) * step)])
}
