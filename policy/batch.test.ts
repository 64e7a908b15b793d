import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, describe, expect, test } from 'vitest'

import { makePolicy } from '../test/policy.ts'
import { openBatch, type Batch, type BatchEvent, type LoadedModel } from './batch.ts'
import { readCheckpoint } from './checkpoint.ts'
import type { SampledToken, Sampling } from './decoding.ts'
import { openForward } from './forward.ts'
import { openKvCache } from './kv_cache.ts'
import { openProducts } from './products.ts'
import { openTokenizer } from './tokenizer.ts'

const scratch = mkdtempSync(join(tmpdir(), 'leyden-batch-'))
afterAll(() => rmSync(scratch, { recursive: true }))
const products = await openProducts({ kernels: 'auto' })
const folders = [await makePolicy(join(scratch, '1')), await makePolicy(join(scratch, '2'), { seed: 2 })]
const tokenizer = await openTokenizer(folders[0]!)

const SAMPLING: Sampling = { temperature: 1, top_p: 1, top_k: 0, max_tokens: 12, stop: [], seed: 1, top_logprobs: 0 }
const prompt = tokenizer.encode('How many singers are older than 30?')

const modelOf = (version: number, blocks = 200, tokens_per_pass = 64): LoadedModel => ({
  forward: openForward(readCheckpoint(folders[version - 1]!), products, blocks, tokens_per_pass),
  cache: openKvCache(blocks),
  tokenizer,
  context: 512,
  tokens_per_pass,
})

function open({ max_running = 8, tokens_per_pass = 64, blocks = 200 } = {}): Batch {
  const batch = openBatch({ max_running })
  batch.load(1, modelOf(1, blocks, tokens_per_pass))
  batch.promote(1)
  return batch
}

interface Result {
  readonly tokens: SampledToken[]
  version?: number
  cached?: number
  finish?: string | null
  problem?: string
}

/** Steps until nothing is left (or `until` says so), and gathers what each request got. */
function run(batch: Batch, results = new Map<number, Result>(), until: () => boolean = () => false): Map<number, Result> {
  for (let steps = 0; batch.busy() && !until(); steps++) {
    if (steps > 2000) throw new Error('the batch does not end')
    for (const event of batch.step()) gather(results, event)
  }
  return results
}

function gather(results: Map<number, Result>, event: BatchEvent): void {
  const result = results.get(event.id) ?? { tokens: [] }
  results.set(event.id, result)
  if (event.kind === 'began') Object.assign(result, { version: event.version, cached: event.cached_tokens })
  else if (event.kind === 'failed') result.problem = event.problem
  else {
    result.tokens.push(event.token)
    result.finish = event.finish
  }
}

const ids = (result: Result | undefined) => result!.tokens.map(({ id }) => id)
const text = (result: Result | undefined) => result!.tokens.map(({ text }) => text).join('')

function answer(sampling: Partial<Sampling> = {}, from = prompt): Result {
  const batch = open()
  batch.add({ id: 1, prompt: from, sampling: { ...SAMPLING, ...sampling }, version: undefined })
  return run(batch).get(1)!
}

describe('the same seed, prompt and version give the same answer', () => {
  const alone = Array.from({ length: 20 }, (_, i) => answer({ seed: i, max_tokens: 5 + (i % 9) }, prompt.slice(0, 3 + (i % 8))))

  test.each([
    ['beside others', { max_running: 20, tokens_per_pass: 64 }],
    ['with few places', { max_running: 3, tokens_per_pass: 64 }],
    ['with prompts read in pieces', { max_running: 5, tokens_per_pass: 6 }],
    ['with a cache that is full', { max_running: 20, tokens_per_pass: 64, blocks: 4 }],
  ])('%s', (_, options) => {
    const batch = open(options)
    const results = new Map<number, Result>()
    alone.forEach((_, i) => {
      batch.add({
        id: i,
        prompt: prompt.slice(0, 3 + (i % 8)),
        sampling: { ...SAMPLING, seed: i, max_tokens: 5 + (i % 9) },
        version: undefined,
      })
      for (const event of batch.step()) gather(results, event)
    })
    run(batch, results)
    alone.forEach((wanted, i) => expect(results.get(i)!.tokens).toEqual(wanted.tokens))
  })

  test('and another seed another one', () => expect(ids(alone[0])).not.toEqual(ids(alone[9]).slice(0, ids(alone[0]).length)))
})

test('a second turn reads only what is new, and answers as if it had read all', () => {
  const batch = open()
  const ask = (from: number[], id: number) => batch.add({ id, prompt: from, sampling: { ...SAMPLING, max_tokens: 30 }, version: undefined })
  const history = tokenizer.encode('The weather in Paris is 18 degrees and cloudy.'.repeat(4))
  ask(history, 1)
  const first = run(batch).get(1)!
  const second = [...history, ...ids(first), ...prompt]
  ask(second, 2)
  const result = run(batch).get(2)!
  expect(first.cached).toBe(0)
  expect(result.cached).toBeGreaterThan(history.length)
  expect(result.tokens).toEqual(answer({ max_tokens: 30 }, second).tokens)
})

describe('an answer ends', () => {
  const whole = answer({ max_tokens: 40, seed: 3 })

  test('at max_tokens, or where the context is full', () => {
    expect(whole).toMatchObject({ finish: 'length' })
    expect(ids(whole)).toHaveLength(40)
    expect(ids(answer({ max_tokens: 40 }, new Array<number>(500).fill(7)))).toHaveLength(12)
  })

  test('before a stop text, wherever the tokens cut it', () => {
    const all = text(whole)
    for (const [from, length] of [
      [5, 3],
      [1, 9],
      [8, 1],
    ] as const) {
      const stop = all.slice(from, from + length)
      const stopped = answer({ max_tokens: 40, seed: 3, stop: ['not in there', stop] })
      expect(text(stopped)).toBe(all.slice(0, all.indexOf(stop)))
      expect(stopped.finish).toBe('stop')
      expect(ids(whole).slice(0, ids(stopped).length)).toEqual(ids(stopped))
    }
  })

  test('with what was held back for a stop text that did not come', () => {
    const all = text(whole)
    expect(text(answer({ max_tokens: 40, seed: 3, stop: [`${all.slice(-3)}never`] }))).toBe(all)
  })

  test('at a token that ends answers, which is drawn but no text', () => {
    for (let seed = 0; seed < 400; seed++) {
      const result = answer({ seed, max_tokens: 40 })
      expect(ids(result).slice(0, -1)).not.toContain(2)
      if (result.finish !== 'stop') continue
      expect(ids(result).at(-1)).toBe(2)
      expect(text(result)).not.toContain('<|im_end|>')
      return
    }
    throw new Error('no answer ended by itself')
  })

  test('at once when it is aborted, which makes room for the next', () => {
    const batch = open({ max_running: 1 })
    const request = { prompt, sampling: SAMPLING, version: undefined }
    batch.add({ ...request, id: 1 })
    batch.add({ ...request, id: 2 })
    batch.step()
    batch.abort(1)
    const events = batch.step()
    expect(new Set(events.map(({ id }) => id))).toEqual(new Set([2]))
  })
})

describe('versions', () => {
  const request = { prompt, sampling: { ...SAMPLING, max_tokens: 20 } }

  test('an answer stays on the one that it began with, a later one takes the new one, and a pinned one its own', () => {
    const batch = open()
    const results = new Map<number, Result>()
    batch.add({ ...request, id: 1, version: undefined })
    run(batch, results, () => (results.get(1)?.tokens.length ?? 0) >= 5)
    batch.load(2, modelOf(2))
    batch.promote(2)
    batch.add({ ...request, id: 2, version: undefined })
    batch.add({ ...request, id: 3, version: 1 })
    batch.step().forEach((event) => gather(results, event))
    batch.release(1)
    run(batch, results)
    expect([1, 2, 3].map((id) => results.get(id)!.version)).toEqual([1, 2, 1])
    expect(ids(results.get(1))).toEqual(ids(results.get(3)))
    expect(ids(results.get(1))).not.toEqual(ids(results.get(2)))
    batch.add({ ...request, id: 4, version: 1 })
    expect(run(batch).get(4)!.problem).toBe('version 1 is not loaded')
  })
})

test.each([
  ['an empty prompt', { prompt: [] }, 'the prompt is empty'],
  ['one that fills the context', { prompt: new Array<number>(512).fill(5) }, 'the prompt of 512 tokens leaves no room in a context of 512'],
  ['an id outside of the vocabulary', { prompt: [5, 420] }, "the prompt's token 420 is outside of the vocabulary of 420"],
  ['no tokens to draw', { sampling: { ...SAMPLING, max_tokens: 0 } }, 'max_tokens must be at least 1 (got 0)'],
])('%s is refused, and disturbs nobody', (_, wrong, problem) => {
  const batch = open()
  const good = { prompt, sampling: SAMPLING, version: undefined }
  batch.add({ ...good, id: 1 })
  batch.add({ ...good, ...wrong, id: 2 })
  const results = run(batch)
  expect(results.get(2)).toMatchObject({ problem, tokens: [] })
  expect(results.get(1)!.tokens).toEqual(answer().tokens)
})
