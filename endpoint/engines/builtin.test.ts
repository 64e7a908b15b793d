import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import type { Span } from '../../data/span.ts'
import { initCheckpoint, readCheckpoint } from '../../policy/checkpoint.ts'
import { writeSafetensors } from '../../policy/safetensors.ts'
import { openTokenizer } from '../../policy/tokenizer.ts'
import { policiesOf, type Policies } from '../../storage/policies.ts'
import { startEndpoint, type TestEndpoint } from '../../test/openai.ts'
import { makePolicy } from '../../test/policy.ts'
import { testStorage, type TestStorage } from '../../test/storage.ts'

let storage: TestStorage
let policies: Policies
let folder: string
let base: string
beforeAll(async () => {
  storage = await testStorage()
  policies = policiesOf(storage.client)
  folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  base = await makePolicy(join(folder, 'base'))
})
afterAll(async () => {
  await storage.close()
  await rm(folder, { recursive: true })
})

const messages = [{ role: 'user' as const, content: 'What is 2 + 2?' }]
/** Tokens of an answer that takes far longer than a hang-up needs to arrive. */
const LONG = 20_000
const engine = { engine: 'builtin', kernels: 'decomp' }

/** Starts an endpoint with these models, and waits until it is ready. */
async function start(models: Record<string, object>): Promise<TestEndpoint> {
  const endpoint = await startEndpoint({ models }, { extensions: { clickhouse_storage: storage } })
  await until(async () => (await fetch(`${endpoint.url}/health/ready`)).ok)
  return endpoint
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 10_000; !(await holds()); await new Promise((resolve) => setTimeout(resolve, 20)))
    if (Date.now() > end) throw new Error('it never came to be')
}

const ask = ({ client }: TestEndpoint, more: object = {}) =>
  client.chat.completions.create({ model: 'mine', messages, max_tokens: 12, seed: 7, ...more }) as Promise<OpenAI.ChatCompletion>

const publish = (policy: string, version: number, path: string) =>
  policies.publish({ policy, version, base, path, parent: version - 1, status: 'live', trained_on: {}, metrics: {} })

describe('a model that is not trained', () => {
  let endpoint: TestEndpoint
  beforeAll(async () => {
    const long = await makePolicy(join(folder, 'long'), { context: LONG })
    endpoint = await startEndpoint({ models: { mine: { ...engine, base }, long: { ...engine, base: long } } }, { keep: true })
  })
  afterAll(() => endpoint.stop())

  test('answers in tokens that are recorded as they were drawn, with what was in force', async () => {
    const answer = await ask(endpoint, { logprobs: true, top_logprobs: 2, return_token_ids: true, temperature: 0.7 })
    const { ids } = (await openTokenizer(base)).chat(messages, { add_generation_prompt: true })
    expect(answer).toMatchObject({
      prompt_token_ids: ids,
      system_fingerprint: 'mine@0',
      usage: { prompt_tokens: ids.length, completion_tokens: 12 },
    })
    const { token_ids, logprobs, finish_reason } = answer.choices[0] as OpenAI.ChatCompletion.Choice & { token_ids: number[] }
    expect(finish_reason).toBe('length')
    expect(logprobs!.content!.map(({ top_logprobs }) => top_logprobs.length)).toEqual(Array(12).fill(2))
    expect(await endpoint.calls(1)).toMatchObject([
      {
        tokens: { prompt: ids, response: token_ids, logprobs: logprobs!.content!.map(({ logprob }) => logprob), source: 'engine' },
        params: { temperature: 0.7, top_p: 1, max_tokens: 12, seed: 7 },
        ...{ policy_version: 0, finish: 'length' },
      },
    ])
  })

  test('draws the same again with the same seed, streamed or not, and something else with another', async () => {
    const [one, again, other] = await Promise.all([ask(endpoint), ask(endpoint), ask(endpoint, { seed: 8 })])
    const textOf = ({ choices }: OpenAI.ChatCompletion) => choices[0]!.message.content
    expect(textOf(again)).toBe(textOf(one))
    expect(textOf(other)).not.toBe(textOf(one))
    let streamed = ''
    const chunks: string[] = []
    for await (const { choices } of await endpoint.client.chat.completions.create({
      model: 'mine',
      messages,
      max_tokens: 12,
      seed: 7,
      stream: true,
    }))
      if (choices[0]!.delta.content) chunks.push(choices[0]!.delta.content)
    streamed = chunks.join('')
    expect(streamed).toBe(textOf(one))
    expect(chunks.length).toBeGreaterThan(3)
  })

  test('gives several answers, each of its own', async () => {
    const { choices } = await ask(endpoint, { n: 3 })
    expect(new Set(choices.map(({ message }) => message.content)).size).toBe(3)
    expect(choices[0]!.message.content).toBe((await ask(endpoint)).choices[0]!.message.content)
  })

  test.each([
    ['a prompt that is too long', { messages: [{ role: 'user', content: 'long '.repeat(2_000) }] }, 400, 'context_length_exceeded'],
    ['a version that there is not', { model: 'mine@3' }, 404, 'model_not_found'],
    ['an image', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }, 400, 'unsupported_content'],
  ])('refuses %s', async (_what, more, status, code) => {
    await expect(ask(endpoint, more)).rejects.toMatchObject({ status, code })
  })

  test('refuses token ids that it does not have, and takes those it has', async () => {
    const complete = (prompt: number[]) => endpoint.client.completions.create({ model: 'mine', prompt, max_tokens: 3 })
    await expect(complete([9_999])).rejects.toMatchObject({ status: 400, param: 'prompt' })
    expect((await complete([5, 6, 7])).usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 3 })
  })

  test('stops drawing when its client hangs up', async () => {
    const more = { max_tokens: LONG - 100, temperature: 0 } // its likeliest words never end
    const stream = await endpoint.client.chat.completions.create({ model: 'long', messages, stream: true, ...more })
    for await (const _ of stream) break
    const isGone = ({ attributes }: Span) => attributes['error.type'] === 'client_closed_request'
    await until(async () => (await endpoint.spans(1)).some(isGone))
    expect(endpoint.context.gauges.leyden_endpoint_answers_running!()).toBe(0)
  })
})

test('a policy that calls a tool: the call is parsed, whole and streamed, and recorded with the tokens that it was written in', async () => {
  const endpoint = await start({ mine: { ...engine, base: await makeCaller(join(folder, 'caller')) } })
  const tools = [{ type: 'function' as const, function: { name: 'look_up', parameters: { type: 'object' } } }]
  const { choices } = await ask(endpoint, { tools, temperature: 0 })
  const call = { type: 'function', function: { name: 'look_up', arguments: '{"word": "tree"}' } }
  expect(choices).toMatchObject([{ finish_reason: 'tool_calls', message: { content: null, tool_calls: [call] } }])
  const stream = endpoint.client.chat.completions.stream({ model: 'mine', messages, tools, temperature: 0 })
  expect((await stream.finalChatCompletion()).choices[0]!.message.tool_calls).toMatchObject([call])
  expect(await endpoint.calls(2)).toMatchObject(
    [1, 2].map(() => ({ finish: 'tool_calls', tokens: { response: [CALL, END], logprobs: [0, 0] } })),
  )
  // Who may not call is given it as text.
  const { choices: said } = await ask(endpoint, { tools, tool_choice: 'none', temperature: 0 })
  expect(said[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.stringContaining('look_up') } })
})

const [END, CALL] = [2, 420]

/** Weights that say one thing: after any token a call, which is a token of its own, and after that the end. */
async function makeCaller(path: string): Promise<string> {
  await makePolicy(path)
  const tokenizer = JSON.parse(await readFile(join(path, 'tokenizer.json'), 'utf8')) as { added_tokens: object[] }
  const content = '<tool_call>\n{"name": "look_up", "arguments": {"word": "tree"}}\n</tool_call>'
  const flags = { special: false, single_word: false, lstrip: false, rstrip: false, normalized: false }
  tokenizer.added_tokens.push({ id: CALL, content, ...flags })
  await writeFile(join(path, 'tokenizer.json'), JSON.stringify(tokenizer))
  const size = { hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 1, max_position_embeddings: 512 }
  initCheckpoint(path, { vocab_size: CALL + 1, ...size, eos_token_id: END, tie_word_embeddings: false }, 1)
  const { weights } = readCheckpoint(path)
  for (const [name, { data }] of weights) if (!name.endsWith('norm.weight')) data.fill(0)
  const embedding = weights.get('model.embed_tokens.weight')!.data
  const head = weights.get('lm_head.weight')!.data
  for (let token = 0; token <= CALL; token++) embedding[token * 8 + (token === CALL ? 1 : 0)] = 1
  head[CALL * 8] = 100
  head[END * 8 + 1] = 100
  writeSafetensors(join(path, 'model.safetensors'), weights, 'F32')
  return path
}

describe('a policy under training', () => {
  test('answers as its base until there is a version, then takes each as it is published, without a failed request', async () => {
    const endpoint = await start({ mine: { ...engine, policy: 'swapped', base } })
    const seen: (number | null)[] = []
    let going = true
    const agents = Array.from({ length: 4 }, async () => {
      while (going) seen.push(Number((await ask(endpoint, { seed: seen.length })).system_fingerprint!.split('@')[1]))
    })
    for (const version of [1, 2]) {
      await until(async () => seen.at(-1) === version - 1)
      await publish('swapped', version, await makePolicy(join(folder, `swapped${version}`), { seed: 1 + version }))
    }
    await until(async () => seen.at(-1) === 2)
    going = false
    await Promise.all(agents)
    expect([...new Set(seen)].sort()).toEqual([0, 1, 2])
    const calls = await endpoint.calls(seen.length)
    expect(calls.map(({ policy_version }) => policy_version).sort()).toEqual(seen.sort())
    const [old, live] = [await ask(endpoint, { model: 'mine@1' }), await ask(endpoint)]
    expect([old.system_fingerprint, live.system_fingerprint, old.model]).toEqual(['mine@1', 'mine@2', 'mine'])
    expect(old.choices[0]!.message.content).not.toBe(live.choices[0]!.message.content)
  })

  test('goes on with the one before when a version cannot be loaded, and says so', async () => {
    const endpoint = await start({ mine: { ...engine, policy: 'broken', base } })
    await publish('broken', 1, await makePolicy(join(folder, 'broken1'), { seed: 5 }))
    await until(async () => (await ask(endpoint)).system_fingerprint === 'mine@1')
    await publish('broken', 2, join(folder, 'nowhere'))
    await until(async () => endpoint.context.counts.leyden_policy_versions_rejected === 1)
    expect((await ask(endpoint)).system_fingerprint).toBe('mine@1')
    await until(async () => (await policies.live('broken'))?.version === 1)
    expect(endpoint.context.lines.find(({ text }) => text.startsWith('error'))!.fields).toMatchObject({ policy: 'broken', version: 2 })
    await publish('broken', 3, await makePolicy(join(folder, 'broken3'), { seed: 6 }))
    await until(async () => (await ask(endpoint)).system_fingerprint === 'mine@3')
  })
})
