// Answers that must have a form, by a policy that says anything: what comes is of the form because it is held to it.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents'
import { generateObject } from 'ai'
import type OpenAI from 'openai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'

import { startEndpoint, type TestEndpoint } from '../../test/openai.ts'
import { makePolicy, wordLevelPolicy } from '../../test/policy.ts'

const folder = mkdtempSync(join(tmpdir(), 'leyden-forms-'))
let endpoint: TestEndpoint
beforeAll(async () => {
  const base = await makePolicy(join(folder, 'base'), { context: 2_048 })
  const words = wordLevelPolicy(join(folder, 'words'), ['yes', 'no'])
  const models = { mine: { engine: 'builtin', kernels: 'decomp', base }, words: { engine: 'builtin', kernels: 'decomp', base: words } }
  endpoint = await startEndpoint({ models }, { keep: true })
})
afterAll(async () => {
  await endpoint.stop()
  rmSync(folder, { recursive: true })
})

const messages = [{ role: 'user' as const, content: 'Where is it?' }]
/** Small, so that an answer that means nothing ends soon. */
const Place = z.object({
  city: z.enum(['Rome', 'Oslo']),
  level: z.int().min(-2).max(40),
  open: z.boolean().nullable(),
  note: z.string().max(4),
})
const fn = (name: string, more: object = {}) => ({
  type: 'function' as const,
  function: { name, parameters: z.toJSONSchema(Place), ...more },
})

const ask = (more: object) =>
  endpoint.client.chat.completions.create({ model: 'mine', messages, ...more } as never) as Promise<OpenAI.ChatCompletion>
const callsIn = ({ choices }: OpenAI.ChatCompletion) =>
  choices[0]!.message.tool_calls!.map((call) =>
    call.type === 'function' ? [call.function.name, Place.parse(JSON.parse(call.function.arguments))] : [],
  )

describe('JSON', () => {
  test('of a schema, at any temperature, several at once, and streamed', async () => {
    const response_format = zodResponseFormat(Place, 'place')
    const { choices } = await ask({ response_format, n: 5, seed: 1, temperature: 1.5 })
    for (const { message, finish_reason } of choices) {
      expect(finish_reason).toBe('stop')
      Place.parse(JSON.parse(message.content!))
    }
    const parsed = await endpoint.client.chat.completions.parse({ model: 'mine', messages, response_format, temperature: 0 })
    Place.parse(parsed.choices[0]!.message.parsed)
    const streamed = await endpoint.client.chat.completions.stream({ model: 'mine', messages, response_format }).finalChatCompletion()
    Place.parse(streamed.choices[0]!.message.parsed)
  })

  test('any object', async () => {
    const { choices } = await ask({ response_format: { type: 'json_object' }, max_tokens: 300, seed: 3 })
    // This policy's objects may be longer than it has room for; what there is of one begins as one.
    if (choices[0]!.finish_reason === 'stop') expect(JSON.parse(choices[0]!.message.content!)).toBeTypeOf('object')
    expect(choices[0]!.message.content!.trim()).toMatch(/^\{/)
  })

  test('or a tool call, where it may call one', async () => {
    const answers = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((seed) =>
        ask({ response_format: zodResponseFormat(Place, 'place'), tools: [fn('look')], parallel_tool_calls: false, seed }),
      ),
    )
    for (const answer of answers) {
      const { content, tool_calls } = answer.choices[0]!.message
      if (tool_calls) expect(callsIn(answer)).toMatchObject([['look', {}]])
      else Place.parse(JSON.parse(content!))
    }
  })
})

describe('a tool call', () => {
  test('of some tool', async () => {
    const answer = await ask({ tools: [fn('look'), fn('find')], tool_choice: 'required', parallel_tool_calls: false, seed: 2 })
    expect(answer.choices[0]!.finish_reason).toBe('tool_calls')
    expect(callsIn(answer)).toEqual([[expect.stringMatching(/^(look|find)$/), expect.anything()]])
  })

  test('of the one that is named, by responses as well', async () => {
    const answer = await ask({ tools: [fn('look'), fn('find')], tool_choice: { type: 'function', function: { name: 'find' } } })
    expect(callsIn(answer)).toMatchObject([['find', {}]])
    const { function: find } = fn('find')
    const { output } = await endpoint.client.responses.create({
      ...{ model: 'mine', input: 'Where is it?', tool_choice: { type: 'function', name: 'find' } },
      tools: [{ type: 'function', strict: true, ...find }],
    })
    expect(output).toMatchObject([{ type: 'function_call', name: 'find' }])
  })

  test('without arguments, where the tool takes none', async () => {
    const answer = await ask({
      tools: [{ type: 'function', function: { name: 'now' } }],
      tool_choice: 'required',
      parallel_tool_calls: false,
    })
    const [call] = answer.choices[0]!.message.tool_calls!
    expect(JSON.parse((call as OpenAI.ChatCompletionMessageFunctionToolCall).function.arguments)).toEqual({})
  })
})

test('tokens that the form forced on the policy are recorded without a log-probability, the others with theirs', async () => {
  const own = await startEndpoint({ models: { mine: { engine: 'builtin', kernels: 'decomp', base: join(folder, 'base') } } })
  const asked = {
    model: 'mine',
    messages,
    response_format: zodResponseFormat(Place, 'place'),
    logprobs: true,
    return_token_ids: true,
    seed: 1,
  }
  const { choices } = await own.client.chat.completions.create(asked)
  const tokens = (await own.calls(1))[0]!.tokens!
  expect(tokens.response).toEqual((choices[0] as { token_ids?: number[] }).token_ids)
  // A policy without a preference would nearly never have written this.
  expect(tokens.logprobs.every(Number.isNaN)).toBe(true)
  expect(tokens.logprobs).toHaveLength(tokens.response.length)
  // Its client is told of the distribution that was drawn from.
  expect(choices[0]!.logprobs!.content!.every(({ logprob }) => logprob <= 0)).toBe(true)
})

describe('is refused, and the member that is at fault is named:', () => {
  const schema = (s: unknown, more: object = {}) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema: s, ...more } },
  })
  const pattern = { type: 'object', properties: { a: { type: 'string', pattern: '^a' } } }
  test.each<[string, object, string | null, string | null]>([
    ['a format that there is not', { response_format: { type: 'xml' } }, 'response_format.type', 'invalid_type'],
    [
      'a schema without a name',
      { response_format: { type: 'json_schema', json_schema: { schema: {} } } },
      'response_format.json_schema.name',
      'invalid_type',
    ],
    [
      'no schema',
      { response_format: { type: 'json_schema', json_schema: { name: 'x' } } },
      'response_format.json_schema.schema',
      'invalid_type',
    ],
    ['strict that is no flag', schema({}, { strict: 'yes' }), 'response_format.json_schema.strict', 'invalid_type'],
    ['a keyword that cannot be held to', schema(pattern), 'response_format.json_schema.schema.properties.a.pattern', 'unsupported_schema'],
    ['a schema that nothing satisfies', schema({ $ref: '#' }), 'response_format.json_schema.schema', 'unsupported_schema'],
    [
      'a strict tool that cannot be held to',
      { tools: [fn('f', { strict: true, parameters: pattern })], tool_choice: 'required' },
      'tools[0].function.parameters.properties.a.pattern',
      'unsupported_schema',
    ],
    ['JSON by a policy whose words are others', { model: 'words', response_format: { type: 'json_object' } }, null, 'unsupported_schema'],
  ])('%s', async (_what, more, param, code) => {
    await expect(ask(more)).rejects.toMatchObject({ status: 400, param, code })
  })

  test('but not a tool that need not be held to all it says', async () => {
    const loose = fn('f', { parameters: { ...pattern, properties: { a: { type: 'string', pattern: '^a', maxLength: 3 } } } })
    const { choices } = await ask({ tools: [loose], tool_choice: 'required', parallel_tool_calls: false })
    expect(choices[0]!.message.tool_calls).toHaveLength(1)
  })
})

describe('clients ask for objects and get them:', () => {
  test('openai, by responses', async () => {
    const { output_parsed } = await endpoint.client.responses.parse({
      model: 'mine',
      input: 'Where?',
      text: { format: zodTextFormat(Place, 'place') },
    })
    Place.parse(output_parsed)
  })

  test.each(['jsonSchema', 'functionCalling'] as const)('LangChain, by %s', async (method) => {
    const model = new ChatOpenAI({ model: 'mine', apiKey: 'key', maxRetries: 0, configuration: { baseURL: `${endpoint.url}/v1` } })
    Place.parse(await model.withStructuredOutput(Place, { method, name: 'place' }).invoke('Where?'))
  })

  test.each([true, false])('@openai/agents, by responses: %s', async (useResponses) => {
    setTracingDisabled(true)
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: endpoint.client as never, useResponses }) })
    const { finalOutput } = await runner.run(new Agent({ name: 'guide', model: 'mine', outputType: Place }), 'Where?')
    Place.parse(finalOutput)
  })

  test.each(
    Object.entries({
      responses: (baseURL: string) => createOpenAI({ baseURL, apiKey: 'key' })('mine'),
      chat: (baseURL: string) => createOpenAI({ baseURL, apiKey: 'key' }).chat('mine'),
      compatible: (baseURL: string) =>
        createOpenAICompatible({ baseURL, apiKey: 'key', name: 'leyden', supportsStructuredOutputs: true })('mine'),
    }),
  )('Vercel AI SDK: %s', async (_name, modelOf) => {
    const { object } = await generateObject({ model: modelOf(`${endpoint.url}/v1`), schema: Place, prompt: 'Where?', maxRetries: 0 })
    Place.parse(object)
  })
})
