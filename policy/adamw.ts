// AdamW (Loshchilov & Hutter, arXiv 1711.05101) with clipping by global norm, as PyTorch does both.

import type * as TF from '@tensorflow/tfjs-core'

import type { LearnerOptions } from './learning.ts'

export interface AdamW {
  /** Updates taken. */
  readonly steps: number
  /** Moments by parameter, in the parameters' order. */
  readonly moments: ReadonlyMap<string, { readonly m: TF.Tensor; readonly v: TF.Tensor }>
  /** Applies one update and returns the gradients' global norm before clipping. Rejects, having changed nothing, when it is not finite. */
  step(gradients: ReadonlyMap<string, TF.Tensor>, learningRate: number): Promise<number>
  /** Goes on from another's moments, [m, v] each, which are copied. */
  restore(steps: number, moments: ReadonlyMap<string, readonly [Float32Array, Float32Array]>): void
  dispose(): void
}

export function adamw(tf: typeof TF, parameters: ReadonlyMap<string, TF.Variable>, options: LearnerOptions['optimizer']): AdamW {
  const { beta1, beta2, epsilon, weight_decay: decay, clip_norm: clipNorm } = options
  const zero = (like: TF.Tensor) => tf.keep(tf.zerosLike(like))
  const moments = new Map([...parameters].map(([name, parameter]) => [name, { m: zero(parameter), v: zero(parameter) }]))
  let steps = 0

  return {
    get steps() {
      return steps
    },
    moments,
    step: async (gradients, learningRate) => {
      if (!(learningRate >= 0 && Number.isFinite(Math.fround(learningRate))))
        throw new Error(`learning rate must be finite and not negative (got ${learningRate})`)
      const norm = await globalNorm(tf, [...gradients.values()])
      if (!Number.isFinite(norm)) throw new Error(`the gradients' norm is ${norm}: this update is left out, the weights are as they were`)
      steps++
      const clip = clipNorm > 0 ? Math.min(1, clipNorm / (norm + 1e-6)) : 1
      const rate = learningRate / (1 - beta1 ** steps)
      const spread = Math.sqrt(1 - beta2 ** steps)
      for (const [name, parameter] of parameters) {
        const gradient = gradients.get(name)
        if (!gradient) continue
        const old = moments.get(name)!
        const next = tf.tidy(() => {
          const g = tf.mul(gradient, clip)
          const m = tf.add(tf.mul(old.m, beta1), tf.mul(g, 1 - beta1))
          const v = tf.add(tf.mul(old.v, beta2), tf.mul(tf.square(g), 1 - beta2))
          const change = tf.div(tf.mul(m, rate), tf.add(tf.div(tf.sqrt(v), spread), epsilon))
          const kept = decay > 0 ? tf.mul(parameter, 1 - learningRate * decay) : parameter
          parameter.assign(tf.sub(kept, change))
          return { m: tf.keep(m), v: tf.keep(v) }
        })
        tf.dispose([old.m, old.v])
        moments.set(name, next)
      }
      return norm
    },
    restore: (stepsTaken, saved) => {
      steps = stepsTaken
      for (const [name, [m, v]] of saved) {
        const { shape } = parameters.get(name)!
        tf.dispose(Object.values(moments.get(name)!))
        moments.set(name, { m: tf.keep(tf.tensor(m, shape)), v: tf.keep(tf.tensor(v, shape)) })
      }
    },
    dispose: () => tf.dispose([...moments.values()].flatMap(({ m, v }) => [m, v])),
  }
}

/** Rows are summed on the device, their sums here in double precision: one float32 sum over millions of squares would stand still. */
async function globalNorm(tf: typeof TF, gradients: readonly TF.Tensor[]): Promise<number> {
  let sum = 0
  for (const gradient of gradients) {
    const squares = tf.tidy(() => tf.sum(tf.square(gradient), -1))
    for (const row of await squares.data()) sum += row
    squares.dispose()
  }
  return Math.sqrt(sum)
}
