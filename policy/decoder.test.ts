import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'

import { afterAll, afterEach, describe, expect, test } from 'vitest'

import { makePolicy, wordLevelFolder } from '../test/policy.ts'
import { openLearner } from './learner.ts'
import { readCheckpoint, writeCheckpoint } from './checkpoint.ts'
import { openDecoder, type DecoderOptions } from './decoder.ts'
import { DecoderBusy, type Decoder, type SampledToken, type Sampling } from './decoding.ts'

const FIXTURES = join(import.meta.dirname, '../test/fixtures/policy')
const scratch = mkdtempSync(join(tmpdir(), 'leyden-decoder-'))
const policy = await makePolicy(join(scratch, 'policy'))
const other = await makePolicy(join(scratch, 'other'), { seed: 2 })
const opened: Decoder[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((decoder) => decoder.close()))
})
afterAll(() => rmSync(scratch, { recursive: true }))

const SAMPLING: Sampling = { temperature: 1, top_p: 1, top_k: 0, max_tokens: 12, stop: [], seed: 1, top_logprobs: 0 }
const PROMPT = [44, 73, 325, 83]

async function open(options: DecoderOptions = {}): Promise<Decoder> {
  const decoder = await openDecoder({ kernels: 'decomp', ...options })
  opened.push(decoder)
  return decoder
}

async function serving(options: DecoderOptions = {}): Promise<Decoder> {
  const decoder = await open(options)
  await decoder.load(1, policy)
  decoder.promote(1)
  return decoder
}

const generate = (decoder: Decoder, sampling: Partial<Sampling> = {}, prompt = PROMPT, version?: number, each = (_: SampledToken) => {}) =>
  decoder.generate(prompt, { ...SAMPLING, ...sampling }, each, new AbortController().signal, version)

test('an answer comes token by token and whole, with its log-probabilities and its version', async () => {
  const decoder = await serving()
  const tokens: SampledToken[] = []
  const answer = await generate(decoder, { top_logprobs: 3 }, PROMPT, undefined, (token) => tokens.push(token))
  expect(answer).toMatchObject({ finish_reason: 'length', version: 1, cached_tokens: 0 })
  expect(answer.token_ids).toEqual(tokens.map(({ id }) => id))
  expect(answer.logprobs).toEqual(tokens.map(({ logprob }) => logprob))
  expect(answer.text).toBe(tokens.map(({ text }) => text).join(''))
  expect(tokens.every(({ top }) => top.length === 3 && top[0]!.logprob >= top[1]!.logprob)).toBe(true)
  expect(await generate(decoder)).toEqual(answer)
})

describe('a folder of Hugging Face', () => {
  /** The models of the fixtures, with a tokenizer of as many words. */
  function withTokenizer(name: string): string {
    const folder = join(scratch, name)
    cpSync(join(FIXTURES, name), folder, { recursive: true })
    const words = Array.from({ length: 94 }, (_, i) => `w${i}`)
    return wordLevelFolder(folder, words, { eos_token: null })
  }

  const models = ['llama', 'llama-old-config-sharded-untied', 'llama3-rope-scaling', 'qwen2-bf16', 'qwen3']
  test.each(models)('%s goes on as in transformers', async (name) => {
    const { greedy_prompt, greedy_12 } = JSON.parse(readFileSync(join(FIXTURES, name, 'expected.json'), 'utf8'))
    const decoder = await open()
    await decoder.load(1, withTokenizer(name))
    decoder.promote(1)
    const { token_ids } = await generate(decoder, { temperature: 0 }, greedy_prompt)
    expect(token_ids).toEqual(greedy_12)
  })

  test('may be an adapter, which changes what its base says', async () => {
    const base = withTokenizer('llama')
    cpSync(join(FIXTURES, 'llama-lora'), join(scratch, 'llama-lora'), { recursive: true })
    const decoder = await open()
    await decoder.load(1, base)
    await decoder.load(2, join(scratch, 'llama-lora'))
    const [plain, adapted] = await Promise.all([generate(decoder, {}, [5, 6], 1), generate(decoder, {}, [5, 6], 2)])
    expect(adapted.version).toBe(2)
    expect(adapted.logprobs[0]).not.toBe(plain.logprobs[0])
  })
})

test('a learner scores what was drawn as it was drawn, before an update and after it', async () => {
  const learner = await openLearner({
    ...{ base: policy, backend: 'wasm', kernels: 'decomp', value_head: false, tokens_per_pass: 256, seed: 1 },
    optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0, clip_norm: 1 },
  })
  const decoder = await open()
  const updated = join(scratch, 'updated')
  for (const [version, folder] of [policy, updated].entries()) {
    if (version > 0) await learner.save(updated)
    await decoder.load(version, folder)
    decoder.promote(version)
    const seeds = [1, 2, 3, 4, 5, 6]
    const answers = await Promise.all(seeds.map((seed) => generate(decoder, { seed, temperature: 0.7, max_tokens: 5 + 6 * seed })))
    const rows = answers.map(({ token_ids }) => ({
      tokens: Int32Array.from([...PROMPT, ...token_ids]),
      scored: Uint8Array.from([...PROMPT.map(() => 0), ...token_ids.map(() => 1)]),
      temperature: 0.7,
    }))
    const { logprobs } = await learner.score(rows)
    const drawn = answers.flatMap((answer) => answer.logprobs)
    expect(logprobs).toHaveLength(drawn.length)
    drawn.forEach((logprob, i) => expect(Math.abs(Math.exp(logprobs[i]! - logprob) - 1)).toBeLessThan(1e-4))
    await learner.accumulate(rows, (scores) => ({ logprobs: scores.logprobs.map((_, i) => Math.sin(i)) }))
    await learner.step(0.01)
  }
  learner.close()
})

describe('a version', () => {
  test('is replaced under load without a failed answer; each ends on the one that it began with, and none waits while the next is loaded', async () => {
    const decoder = await serving({ max_running: 8 })
    let loading = false
    let drawnMeanwhile = 0
    const count = () => {
      if (loading) drawnMeanwhile++
    }
    const agent = async (seed: number): Promise<number[]> => {
      const versions: number[] = []
      while (versions.at(-1) !== 2) {
        const answer = await generate(decoder, { seed, max_tokens: 40 }, PROMPT, undefined, count)
        versions.push(answer.version)
      }
      return versions
    }
    const agents = Array.from({ length: 12 }, (_, seed) => agent(seed))
    loading = true
    await decoder.load(2, other)
    loading = false
    decoder.promote(2)
    const late = await generate(decoder)
    decoder.release(1)
    expect(late.version).toBe(2)
    expect(drawnMeanwhile).toBeGreaterThan(0)
    expect(new Set((await Promise.all(agents)).flat())).toEqual(new Set([1, 2]))
    expect(decoder.state()).toMatchObject({ loaded: [2], live: 2, running: 0, waiting: 0 })
  })

  test('may be pinned; one that is not loaded is an error, and the live one is not given up', async () => {
    const decoder = await open()
    await expect(generate(decoder)).rejects.toThrow('no version is live')
    await decoder.load(1, policy)
    await decoder.load(2, other)
    decoder.promote(2)
    expect((await generate(decoder, {}, PROMPT, 1)).version).toBe(1)
    await expect(generate(decoder, {}, PROMPT, 3)).rejects.toThrow('version 3 is not loaded')
    expect(() => decoder.promote(3)).toThrow('version 3 is not loaded')
    expect(() => decoder.release(2)).toThrow('version 2 is live')
  })

  const spoilt: Record<string, (folder: string) => void> = {
    'with a file cut off': (folder) => truncateSync(join(folder, 'model.safetensors'), 30_000),
    'with NaN among its weights': (folder) => {
      const { weights } = readCheckpoint(policy)
      weights.get('model.norm.weight')!.data[3] = NaN
      writeCheckpoint(folder, policy, weights)
    },
    'of another shape': (folder) => {
      const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))
      writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, intermediate_size: 65 }))
    },
    'without a tokenizer': (folder) => rmSync(join(folder, 'tokenizer.json')),
  }
  test.each(Object.entries(spoilt))('%s is refused, naming what is wrong, and the live one stays', async (name, spoil) => {
    const folder = join(scratch, `spoilt ${name}`)
    mkdirSync(folder)
    cpSync(policy, folder, { recursive: true })
    spoil(folder)
    const decoder = await serving()
    await expect(decoder.load(2, folder)).rejects.toThrow(/safetensors|norm\.weight|mlp\.|tokenizer\.json/)
    expect(decoder.state()).toMatchObject({ loaded: [1], live: 1 })
    expect((await generate(decoder)).version).toBe(1)
  })
})

test('an answer that nobody waits for any more is given up', async () => {
  const decoder = await serving({ max_running: 1 })
  const hangUp = new AbortController()
  const left = decoder.generate(PROMPT, { ...SAMPLING, max_tokens: 400 }, () => hangUp.abort(new Error('hung up')), hangUp.signal)
  const next = generate(decoder)
  await expect(left).rejects.toThrow('hung up')
  await next
  expect(decoder.state()).toMatchObject({ running: 0, waiting: 0 })
  await expect(decoder.generate(PROMPT, SAMPLING, () => {}, AbortSignal.abort(new Error('too late')))).rejects.toThrow('too late')
})

test('more than may wait are refused', async () => {
  const decoder = await serving({ max_running: 1, max_waiting: 2 })
  const answers = Array.from({ length: 3 }, () => generate(decoder))
  await expect(generate(decoder)).rejects.toThrow(DecoderBusy)
  await Promise.all(answers)
})

test('a prompt that cannot be read is refused', async () => {
  const decoder = await serving()
  await expect(generate(decoder, {}, [])).rejects.toThrow('the prompt is empty')
  await expect(generate(decoder, {}, new Array<number>(600).fill(5))).rejects.toThrow('leaves no room in a context of 512')
  await expect(generate(decoder, {}, [-1])).rejects.toThrow('outside of the vocabulary')
})

test('when its thread dies, what was being decoded is rejected, and it goes on with the versions that it had', async () => {
  const threads: Worker[] = []
  const watch = (thread: Worker) => threads.push(thread)
  process.on('worker', watch)
  const decoder = await serving()
  await decoder.load(2, other)
  const whole = await generate(decoder, {}, PROMPT, 2)
  const lost = generate(decoder, { max_tokens: 400 })
  lost.catch(() => {})
  await threads[0]!.terminate()
  await expect(lost).rejects.toThrow("the decoder's thread died")
  expect(decoder.state()).toMatchObject({ loaded: [1, 2], live: 1, restarts: 1, running: 0 })
  process.off('worker', watch)
  for (;;) {
    const again = await generate(decoder, {}, PROMPT, 2).catch((error: Error) => error)
    if (!(again instanceof Error)) return expect(again).toEqual(whole)
    expect(again.message).toContain('is starting again')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
})
