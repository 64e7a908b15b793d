import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'

import { expect, test } from 'vitest'

import { openLearner } from '../policy/learner.ts'
import type { Row } from '../policy/learning.ts'

const PYTHON = process.env['PYTHON'] ?? 'python3'
const BASE = 'test/fixtures/policy/llama'

const hasTensorFlow =
  spawnSync(PYTHON, ['-c', 'import importlib.util, sys; sys.exit(importlib.util.find_spec("tensorflow") is None)']).status === 0
const hasSources = existsSync('node_modules/@tensorflow/tfjs-node-gpu/binding') && existsSync('node_modules/node-api-headers')

test.skipIf(!hasTensorFlow || !hasSources)(
  'the addon is built, and a policy learns on TensorFlow as it does in PyTorch (skipped where Python has no tensorflow, or npm not what docs/gpu.md installs)',
  async () => {
    const { stdout } = await promisify(execFile)('scripts/build_tf_addon', { env: { ...process.env, PYTHON } })
    expect(stdout).toMatch(/^TensorFlow 2\.\d+\.\d+ on (CPUs|a GPU)$/m)

    const expected = JSON.parse(readFileSync(`${BASE}/expected.json`, 'utf8')) as {
      input_ids: number[][]
      loss_mask: number[][]
      'adamw_lr0.01_clip1_wd0.01': { losses: number[]; grad_norms_before_clip: number[] }
    }
    const rows = expected.input_ids.map((ids, i): Row => ({
      tokens: Int32Array.from(ids),
      scored: Uint8Array.from(expected.loss_mask[i]!, (one, t) => (t === 0 ? 0 : one)),
      temperature: 1,
    }))
    const learner = await openLearner({
      ...{ base: BASE, backend: 'node-gpu', kernels: 'auto', value_head: false, tokens_per_pass: 1024, seed: 1 },
      optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, clip_norm: 1 },
    })
    const { losses, grad_norms_before_clip: norms } = expected['adamw_lr0.01_clip1_wd0.01']
    for (const [i, norm] of norms.entries()) {
      let loss = 0
      await learner.accumulate(rows, ({ logprobs }) => {
        loss = -logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length
        return { logprobs: logprobs.map(() => -1 / logprobs.length) }
      })
      const { grad_norm } = await learner.step(0.01)
      expect(loss / losses[i]!).toBeCloseTo(1, 4)
      expect(grad_norm / norm).toBeCloseTo(1, 4)
    }
    learner.close()
  },
  300_000,
)
