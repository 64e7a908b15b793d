import { readFileSync } from 'node:fs'

import { afterEach, expect, test } from 'vitest'

import { type AdamW, adamw } from './adamw.ts'
import { openBackend } from './backend.ts'

const { w0, grads, optim } = JSON.parse(readFileSync('test/fixtures/rl/18_optim_sampling.json', 'utf8'))

const open: AdamW[] = []
afterEach(() => open.splice(0).forEach((optimizer) => optimizer.dispose()))

test.each(['adamw', 'adam'])('fixtures/rl/18: %s, gradients clipped by their global norm', async (name) => {
  const { hyper, max_grad_norm, grad_norm_before_clip, weights_after_each_step } = optim[name]
  const { tf } = await openBackend({ backend: 'cpu', kernels: 'auto' })
  const weights = tf.variable(tf.tensor2d(w0))
  const [beta1, beta2] = hyper.betas
  const rest = { epsilon: hyper.eps, weight_decay: hyper.weight_decay ?? 0, clip_norm: max_grad_norm }
  const optimizer = adamw(tf, new Map([['w', weights]]), { beta1, beta2, ...rest })
  open.push(optimizer)
  for (const [step, gradient] of grads.entries()) {
    const norm = await optimizer.step(new Map([['w', tf.tensor2d(gradient)]]), hyper.lr)
    expect(norm).toBeCloseTo(grad_norm_before_clip[step], 5)
    const wanted = weights_after_each_step[step].flat()
    for (const [i, value] of (await weights.data()).entries()) expect(value).toBeCloseTo(wanted[i], 6)
  }
})
