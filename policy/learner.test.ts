import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import * as tf from '@tensorflow/tfjs-core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'

import { initCheckpoint, readCheckpoint } from './checkpoint.ts'
import { openLearner } from './learner.ts'
import type { Learner, LearnerOptions, Row, ScoreGradients, Scores } from './learning.ts'
import { readSafetensors } from './safetensors.ts'

const FIXTURES = join(import.meta.dirname, '../test/fixtures/policy')

const OPTIONS: LearnerOptions = {
  base: join(FIXTURES, 'llama'),
  backend: 'wasm',
  kernels: 'decomp',
  value_head: false,
  optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, clip_norm: 1 },
  tokens_per_pass: 1024,
  seed: 1,
}

let folder: string
const opened: Learner[] = []
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'leyden-learner-'))))
afterEach(() => {
  for (const learner of opened.splice(0)) learner.close()
  rmSync(folder, { recursive: true })
})

async function open(options: Partial<LearnerOptions> = {}): Promise<Learner> {
  const learner = await openLearner({ ...OPTIONS, ...options })
  opened.push(learner)
  return learner
}

/** The loss: the mean of -logprob. */
const likelihood = ({ logprobs }: Scores): ScoreGradients => ({ logprobs: new Float32Array(logprobs.length).fill(-1 / logprobs.length) })
const mean = (values: Float32Array) => values.reduce((sum, value) => sum + value, 0) / values.length

const rowsOf = (lengths: readonly number[], vocabulary = 96): Row[] =>
  lengths.map((length, row) => ({
    tokens: Int32Array.from({ length }, (_, i) => (row * 31 + i * i * 17 + 3) % vocabulary),
    scored: Uint8Array.from({ length }, (_, i) => (i > 1 ? 1 : 0)),
    temperature: 1,
  }))

describe('updates', () => {
  // The reference of qwen2-bf16 has rounded rotary frequencies, see model.test.ts.
  test.each([
    ['llama', 1e-4],
    ['llama-old-config-sharded-untied', 1e-4],
    ['llama3-rope-scaling', 1e-4],
    ['qwen2-bf16', 2e-3],
    ['qwen3', 1e-4],
  ])('%s: three steps of AdamW have the losses and gradient norms of PyTorch', async (name, tolerance) => {
    const expected = JSON.parse(readFileSync(join(FIXTURES, name, 'expected.json'), 'utf8')) as {
      input_ids: number[][]
      loss_mask: number[][]
      'adamw_lr0.01_clip1_wd0.01': { losses: number[]; grad_norms_before_clip: number[] }
    }
    const rows = expected.input_ids.map((ids, i): Row => ({
      tokens: Int32Array.from(ids),
      scored: Uint8Array.from(expected.loss_mask[i]!, (one, t) => (t === 0 ? 0 : one)),
      temperature: 1,
    }))
    const learner = await open({ base: join(FIXTURES, name) })
    const { losses, grad_norms_before_clip: norms } = expected['adamw_lr0.01_clip1_wd0.01']
    for (const [i, norm] of norms.entries()) {
      let loss = 0
      await learner.accumulate(rows, (scores) => {
        loss = -mean(scores.logprobs)
        return likelihood(scores)
      })
      const { grad_norm } = await learner.step(0.01)
      expect(Math.abs(loss / losses[i]! - 1)).toBeLessThan(tolerance)
      expect(Math.abs(grad_norm / norm - 1)).toBeLessThan(tolerance)
    }
  })

  test('two halves accumulated are one whole', async () => {
    const rows = rowsOf([12, 12, 7, 7])
    const half = ({ logprobs }: Scores): ScoreGradients => ({ logprobs: new Float32Array(logprobs.length).fill(-1) })
    const whole = await open({ tokens_per_pass: 64 })
    await whole.accumulate(rows, half)
    const halves = await open({ tokens_per_pass: 16 })
    await halves.accumulate(rows.slice(0, 1), half)
    await halves.accumulate(rows.slice(1), half)
    const [a, b] = [await whole.step(0.01), await halves.step(0.01)]
    expect(b.grad_norm / a.grad_norm).toBeCloseTo(1, 5)
    const [x, y] = [await whole.score(rows), await halves.score(rows)]
    x.logprobs.forEach((value, i) => expect(y.logprobs[i]).toBeCloseTo(value, 4))
  })

  test('a policy with a value head learns its values', async () => {
    const learner = await open({ value_head: true })
    const rows = rowsOf([9, 6])
    const squared = ({ logprobs, values }: Scores): ScoreGradients => ({
      logprobs: new Float32Array(logprobs.length),
      values: values!.map((value, i) => value - Math.sin(i)),
    })
    const distance = async () => (await learner.score(rows)).values!.reduce((sum, value, i) => sum + (value - Math.sin(i)) ** 2, 0)
    const before = await distance()
    for (let i = 0; i < 30; i++) {
      await learner.accumulate(rows, squared)
      await learner.step(0.01)
    }
    expect(await distance()).toBeLessThan(before / 4)
  })

  test('hold no more tensors after twenty steps than after one', async () => {
    const learner = await open({ value_head: true, tokens_per_pass: 16 })
    const rows = rowsOf([12, 5, 7, 3])
    const step = async () => {
      await learner.score(rows, 'reference')
      await learner.accumulate(rows, likelihood)
      await learner.step(0.001)
    }
    await step()
    const { numTensors, numBytes } = tf.memory()
    for (let i = 1; i < 20; i++) await step()
    expect(tf.memory()).toMatchObject({ numTensors, numBytes })
  })

  test('leave nothing behind when the learner is closed', async () => {
    const before = (await open().then((learner) => (opened.pop(), learner.close()))) ?? tf.memory().numTensors
    const learner = await openLearner({ ...OPTIONS, value_head: true, lora: { rank: 2, alpha: 4, targets: ['q_proj'] } })
    await learner.accumulate(rowsOf([6]), likelihood)
    learner.close()
    expect(tf.memory().numTensors).toBe(before)
  })
})

describe('low-rank adapters', () => {
  const lora = { rank: 4, alpha: 8, targets: ['q_proj', 'v_proj', 'down_proj'] }

  test('begin as the base, learn, and leave the base alone', async () => {
    const [rows, base, learner] = [rowsOf([12, 9]), await open(), await open({ lora })]
    const untouched = await base.score(rows)
    expect((await learner.score(rows)).logprobs).toEqual(untouched.logprobs)
    expect(learner.trainable).toBe(2 * 4 * (32 + 32 + (32 + 16) + (56 + 32)))
    for (let i = 0; i < 10; i++) {
      await learner.accumulate(rows, likelihood)
      await learner.step(0.02)
    }
    expect(mean((await learner.score(rows)).logprobs)).toBeGreaterThan(mean(untouched.logprobs) + 0.3)
    expect((await learner.score(rows, 'reference')).logprobs).toEqual(untouched.logprobs)
  })

  test('are saved as PEFT reads them: merged into the base they score the same', async () => {
    const [rows, learner] = [rowsOf([12, 9]), await open({ lora })]
    await learner.accumulate(rows, likelihood)
    await learner.step(0.05)
    const saved = join(folder, 'adapter')
    await learner.save(saved)
    expect(JSON.parse(readFileSync(join(saved, 'adapter_config.json'), 'utf8'))).toMatchObject({ peft_type: 'LORA', r: 4, lora_alpha: 8 })
    const merged = await open({ base: saved })
    const [a, b] = [await learner.score(rows), await merged.score(rows)]
    a.logprobs.forEach((value, i) => expect(b.logprobs[i]).toBeCloseTo(value, 4))
  })

  test('on projections that the model does not have are refused', async () => {
    await expect(open({ lora: { ...lora, targets: ['q_proj', 'c_attn'] } })).rejects.toThrow(
      'lora: targets: must be of q_proj, k_proj, v_proj',
    )
  })
})

describe('files', () => {
  test('a saved model is read back to the last bit, with what lay beside its weights', async () => {
    const learner = await open({ base: join(FIXTURES, 'qwen3') })
    await learner.save(join(folder, 'same'))
    expect(readCheckpoint(join(folder, 'same'))).toEqual({ ...readCheckpoint(join(FIXTURES, 'qwen3')), base: join(folder, 'same') })
  })

  test.each([undefined, { rank: 2, alpha: 4, targets: ['q_proj'] }])(
    'resumed, training goes on as if it had not been interrupted (lora: %j)',
    async (lora) => {
      const options = { ...(lora && { lora }), value_head: true }
      const rows = rowsOf([12, 5, 7])
      const steps = async (learner: Learner, count: number) => {
        for (let i = 0; i < count; i++) {
          await learner.accumulate(rows, likelihood)
          await learner.step(0.01)
        }
      }
      const through = await open(options)
      await steps(through, 4)
      await through.saveState(join(folder, 'through'))

      const first = await open(options)
      await steps(first, 2)
      await first.saveState(join(folder, 'half'))
      const second = await open({ ...options, resume: join(folder, 'half'), seed: 2 })
      await steps(second, 2)
      await second.saveState(join(folder, 'resumed'))

      const state = (name: string) => readSafetensors(join(folder, name, 'learner.safetensors'))
      expect(state('resumed')).toEqual(state('through'))
      expect((await second.score(rows, 'reference')).logprobs).toEqual((await first.score(rows, 'reference')).logprobs)
    },
  )

  test('a state of another policy, or none, is refused', async () => {
    const learner = await open()
    await learner.saveState(join(folder, 'state'))
    await expect(open({ resume: join(folder, 'state'), value_head: true })).rejects.toThrow(
      /learner.safetensors: tensor value_head.weight must be \[32, 1\] \(got nothing\)/,
    )
    await expect(open({ resume: join(folder, 'nothing') })).rejects.toThrow(/learner.safetensors does not exist/)
  })

  test('a save that fails leaves the old one as it was', async () => {
    const learner = await open()
    const target = join(folder, 'good')
    await learner.save(target)
    const blocked = join(folder, 'good', 'model.safetensors', 'below')
    await expect(learner.save(blocked)).rejects.toThrow()
    expect(readCheckpoint(target).weights.size).toBeGreaterThan(0)
    expect(existsSync(`${target}.unfinished`)).toBe(false)
  })

  test('a new model of any size is random by its seed, and learns', async () => {
    const size = {
      vocab_size: 40,
      hidden_size: 16,
      intermediate_size: 32,
      num_hidden_layers: 2,
      num_attention_heads: 2,
      max_position_embeddings: 64,
    }
    const [a, b, c] = ['a', 'b', 'c'].map((name) => join(folder, name)) as [string, string, string]
    initCheckpoint(a, size, 1)
    initCheckpoint(b, size, 1)
    initCheckpoint(c, size, 2)
    expect(readCheckpoint(b).weights).toEqual(readCheckpoint(a).weights)
    expect(readCheckpoint(c).weights).not.toEqual(readCheckpoint(a).weights)

    const [learner, rows] = [await open({ base: a }), rowsOf([20, 16], 40)]
    expect(mean((await learner.score(rows)).logprobs)).toBeCloseTo(-Math.log(40), 1)
    for (let i = 0; i < 40; i++) {
      await learner.accumulate(rows, likelihood)
      await learner.step(0.02)
    }
    expect(mean((await learner.score(rows)).logprobs)).toBeGreaterThan(-1)
  })
})

describe('what cannot be', () => {
  test('derivatives that are not finite, or too few, are refused and change nothing', async () => {
    const [learner, rows] = [await open(), rowsOf([6, 5])]
    const before = await learner.score(rows)
    await expect(learner.accumulate(rows, () => ({ logprobs: new Float32Array(7).fill(NaN) }))).rejects.toThrow(
      'derivatives.logprobs: place 0 is NaN',
    )
    await expect(learner.accumulate(rows, () => ({ logprobs: new Float32Array(3) }))).rejects.toThrow(
      'must be 7 numbers, one per scored token (got 3)',
    )
    await expect(learner.accumulate(rows, (scores) => ({ ...likelihood(scores), values: new Float32Array(7) }))).rejects.toThrow(
      'no value head',
    )
    await learner.step(1)
    expect(await learner.score(rows)).toEqual(before)
  })

  test('gradients that overflow, or a learning rate that is not finite, leave the weights as they were', async () => {
    const [learner, rows] = [await open(), rowsOf([6])]
    const before = await learner.score(rows)
    await learner.accumulate(rows, () => ({ logprobs: new Float32Array(4).fill(1e38) }))
    await expect(learner.step(0.01)).rejects.toThrow(/gradients' norm is (Infinity|NaN)/)
    await learner.accumulate(rows, likelihood)
    await expect(learner.step(Infinity)).rejects.toThrow('learning rate must be finite')
    expect(await learner.score(rows)).toEqual(before)
  })

  test('after a learning rate that explodes, scoring says so', async () => {
    const [learner, rows] = [await open({ lora: { rank: 2, alpha: 4, targets: ['q_proj'] } }), rowsOf([6])]
    const update = async () => {
      await learner.accumulate(rows, likelihood)
      await learner.step(1e30)
    }
    await update() // B is no longer zero, so A has a gradient
    await expect(update().then(update)).rejects.toThrow('the weights have exploded')
  })

  test.each<[string, Partial<Row>]>([
    ['row 1: token 96 is outside of the vocabulary of 96', { tokens: Int32Array.of(1, 96, 3) }],
    ["row 1: has 200 tokens, the model's context 128", { tokens: new Int32Array(200), scored: new Uint8Array(200) }],
    ['row 1: its first token cannot be scored', { scored: Uint8Array.of(1, 0, 0) }],
    ['row 1: has 3 tokens and 2 marks', { scored: Uint8Array.of(0, 1) }],
    ['row 1: temperature must be above 0', { temperature: 0 }],
  ])('%s', async (message, change) => {
    const learner = await open()
    const row: Row = { tokens: Int32Array.of(1, 2, 3), scored: Uint8Array.of(0, 1, 1), temperature: 1 }
    await expect(learner.score([row, { ...row, ...change }])).rejects.toThrow(message)
  })
})
