import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

import { afterAll, expect, test } from 'vitest'

import { readCheckpoint, writeCheckpoint } from '../policy/checkpoint.ts'
import { openLearner } from '../policy/learner.ts'
import { compareLogits, hasHuggingFace } from './hugging_face.ts'

const FIXTURES = 'test/fixtures/policy'
const MODELS = ['llama', 'llama-old-config-sharded-untied', 'llama3-rope-scaling', 'qwen2-bf16', 'qwen3']
const python = process.env['PYTHON'] ?? 'python3'
const folder = mkdtempSync(join(tmpdir(), 'leyden-hugging-face-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Folder of a policy after one update. */
async function trained(base: string, lora?: { rank: number; alpha: number; targets: string[] }): Promise<string> {
  const learner = await openLearner({
    ...{ base: resolve(FIXTURES, base), backend: 'wasm', kernels: 'decomp', value_head: false, tokens_per_pass: 64, seed: 1 },
    optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0, clip_norm: 1 },
    ...(lora && { lora }),
  })
  const tokens = Int32Array.from({ length: 20 }, (_, i) => (3 + i * i) % 90)
  const scored = new Uint8Array(20).fill(1, 1)
  await learner.accumulate([{ tokens, scored, temperature: 1 }], ({ logprobs }) => ({ logprobs: logprobs.map(() => -0.05) }))
  await learner.step(0.01)
  const saved = join(folder, lora ? `${base}-${lora.targets.length}-adapters` : base)
  await learner.save(saved)
  learner.close()
  return saved
}

function inBfloat16(saved: string): string {
  const { weights } = readCheckpoint(saved)
  writeCheckpoint(`${saved}-BF16`, saved, weights, 'BF16')
  return `${saved}-BF16`
}

test.skipIf(!hasHuggingFace(python))(
  'transformers and PEFT load what was trained, in both precisions, and give the same logits (skipped where Python has no torch, transformers and peft)',
  async () => {
    const models = []
    for (const name of MODELS) models.push(await trained(name))
    const adapters = [
      await trained('llama', { rank: 4, alpha: 8, targets: ['q_proj', 'v_proj', 'down_proj'] }),
      await trained('qwen3', { rank: 2, alpha: 4, targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] }),
    ]
    const compared = await compareLogits([...models, ...models.map(inBfloat16), ...adapters, resolve(FIXTURES, 'llama-lora')], python)
    expect(compared).toHaveLength(13)
    for (const one of compared) expect(one.difference, one.folder).toBeLessThan(1e-4)
  },
  120_000,
)
