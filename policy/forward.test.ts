import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, describe, expect, test } from 'vitest'

import { initCheckpoint, readCheckpoint } from './checkpoint.ts'
import { openForward, type ForwardRow } from './forward.ts'
import { openProducts, type ProductOptions } from './products.ts'

const FIXTURES = join(import.meta.dirname, '../test/fixtures/policy')
const WHOLE = ['llama', 'llama-old-config-sharded-untied', 'llama3-rope-scaling', 'qwen2-bf16', 'qwen3']
const scratch = mkdtempSync(join(tmpdir(), 'leyden-forward-'))
afterAll(() => rmSync(scratch, { recursive: true }))

interface Expected {
  readonly input_ids: readonly [readonly number[], readonly number[]]
  readonly logits_row0_pos13: readonly number[]
  readonly token_logprobs: readonly [readonly number[], readonly number[]]
}
const expectedOf = (name: string) => JSON.parse(readFileSync(join(FIXTURES, name, 'expected.json'), 'utf8')) as Expected

type Kernels = ProductOptions['kernels']
const kinds: Kernels[] = (await openProducts({ kernels: 'auto' })).line.includes('large') ? ['decomp', 'blas'] : ['decomp']
const open = async (folder: string, kernels: Kernels, maxRows = 64) => {
  const { config, ...rest } = readCheckpoint(folder)
  // The model behind these numbers had been cast to bfloat16 and back, with its rotary frequencies, which a loaded model computes in float32.
  const frequencies = folder.endsWith('bf16') ? config.frequencies.map(bfloat16) : config.frequencies
  return openForward({ ...rest, config: { ...config, frequencies } }, await openProducts({ kernels }), 16, maxRows)
}
function bfloat16(value: number): number {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer)
  return new Float32Array(Uint32Array.of(((bits! + 0x8000) >>> 16) << 16).buffer)[0]!
}

/** A sequence from its beginning, in blocks that are not in order. */
const rowsOf = (tokens: readonly number[], blocks = [7, 2, 5]): ForwardRow[] =>
  tokens.map((token, position) => ({ token, position, blocks }))
const bytes = (logits: Float32Array) => Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength)
const near = (found: number, wanted: number) => expect(Math.abs(found - wanted)).toBeLessThan(1e-4 * Math.max(1, Math.abs(wanted)))
const logprobOf = (logits: Float32Array, id: number): number => {
  const peak = Math.max(...logits)
  return logits[id]! - peak - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - peak), 0))
}

describe.each(kinds)('products by %s', (kernels) => {
  test.each([...WHOLE, 'llama-lora'])('%s gives the logits of transformers', async (name) => {
    const expected = expectedOf(name)
    const forward = await open(join(FIXTURES, name), kernels)
    for (const [sequence, tokens] of expected.input_ids.entries()) {
      const logits = forward.read(
        rowsOf(tokens),
        tokens.map((_, i) => i),
      )
      tokens.slice(1).forEach((token, i) => near(logprobOf(logits[i]!, token), expected.token_logprobs[sequence]![i]!))
      if (sequence === 0) logits[13]!.forEach((logit, id) => near(logit, expected.logits_row0_pos13[id]!))
    }
  })

  test('a row is the same to the last bit whatever is read beside it, at once or token by token', async () => {
    const model = { vocab_size: 2700, hidden_size: 192, intermediate_size: 320, num_hidden_layers: 2, num_attention_heads: 6 }
    initCheckpoint(scratch, { ...model, num_key_value_heads: 2, max_position_embeddings: 128 }, 5)
    const forward = await open(scratch, kernels, 128)
    const tokens = Array.from({ length: 24 }, (_, i) => (i * 37) % 2700)
    const alone = tokens.map((token, position) => forward.read([{ token, position, blocks: [0, 1, 2] }], [0])[0]!.slice())
    const others = Array.from({ length: 53 }, (_, i) => ({ token: i, position: 0, blocks: [9] }))
    const rows = [...others, ...rowsOf(tokens, [3, 6, 4])]
    const beside = forward.read(
      rows,
      rows.map((_, r) => r),
    )
    tokens.forEach((_, i) => expect(bytes(beside[others.length + i]!).equals(bytes(alone[i]!))).toBe(true))
  })
})
