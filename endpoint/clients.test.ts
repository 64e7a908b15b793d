// The clients that agents are written with, unchanged, against the endpoint. Python's are in clients_python.test.ts.

import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { tool as langChainTool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents'
import { APICallError, generateText, stepCountIs, streamText, tool as aiTool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { toolCallsIn } from '../data/messages.ts'
import { adder, scripted, startEndpoint, type TestEndpoint } from '../test/openai.ts'

const start = () => startEndpoint(scripted(adder))

const parameters = z.object({ a: z.number(), b: z.number() })
const sum = ({ a, b }: z.infer<typeof parameters>) => String(a + b)
const description = 'Adds two numbers.'

/** Two calls, the second with what the tools of the first said. */
async function expectTwoCalls({ calls }: TestEndpoint): Promise<void> {
  const [first, second] = await calls(2)
  expect(toolCallsIn(first!.completion).map(({ name, arguments: args }) => [name, args])).toEqual([
    ['calculator', '{"a":2,"b":2}'],
    ['calculator', '{"a":3,"b":3}'],
  ])
  expect(second).toMatchObject({
    prompt: [
      ...first!.prompt,
      { role: 'assistant', parts: [{ kind: 'text', text: 'Let me see.' }, { kind: 'tool_call' }, { kind: 'tool_call' }] },
      { role: 'tool', parts: [{ kind: 'tool_result', text: '4' }] },
      { role: 'tool', parts: [{ kind: 'tool_result', text: '6' }] },
    ],
    completion: { parts: [{ kind: 'text', text: 'It is 4 and 6.' }] },
    flags: [],
  })
}

describe('openai', () => {
  const fn = { name: 'calculator', description, parameters: z.toJSONSchema(parameters) as Record<string, unknown> }

  test('runs tools by itself, streaming', async () => {
    const endpoint = await start()
    const runner = endpoint.client.chat.completions.runTools({
      model: 'demo',
      stream: true,
      messages: [{ role: 'user', content: 'add' }],
      tools: [{ type: 'function', function: { ...fn, parse: JSON.parse, function: sum } }],
    })
    expect(await runner.finalContent()).toBe('It is 4 and 6.')
    await expectTwoCalls(endpoint)
  })

  test('gets responses, whole and as events that add up to it', async () => {
    const endpoint = await start()
    const input = [{ role: 'user' as const, content: 'add' }]
    const tools = [{ type: 'function' as const, strict: false, ...fn }]
    const whole = await endpoint.client.responses.create({ model: 'demo', input, tools })
    const stream = endpoint.client.responses.stream({ model: 'demo', input, tools })
    const types: string[] = []
    for await (const { type } of stream) types.push(type)
    const streamed = await stream.finalResponse()
    const shape = ({ output }: OpenAI.Responses.Response) =>
      output.map((item) => (item.type === 'function_call' ? [item.name, item.arguments] : item.type))
    expect(shape(streamed)).toEqual(shape(whole))
    expect(shape(whole)).toEqual(['message', ['calculator', '{"a":2,"b":2}'], ['calculator', '{"a":3,"b":3}']])
    expect(types.slice(0, 4)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
    ])
    expect(types.at(-1)).toBe('response.completed')

    const outputs = whole.output.flatMap((item) =>
      item.type === 'function_call'
        ? [{ type: 'function_call_output' as const, call_id: item.call_id, output: sum(JSON.parse(item.arguments)) }]
        : [],
    )
    const next = await endpoint.client.responses.create({ model: 'demo', previous_response_id: whole.id, input: outputs })
    expect(next.output_text).toBe('It is 4 and 6.')
    expect((await endpoint.calls(3))[2]!.prompt.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'assistant',
      'assistant',
      'tool',
      'tool',
    ])
  })

  test('gets several answers with logprobs and token ids', async () => {
    const { client } = await start()
    const asked = {
      model: 'demo',
      messages: [{ role: 'user' as const, content: 'hi' }],
      n: 2,
      logprobs: true,
      top_logprobs: 1,
      return_token_ids: true,
    }
    const { choices, ...answer } = await client.chat.completions.create(asked)
    expect(choices.map(({ message, index }) => [index, message.content])).toEqual([
      [0, 'Hello you there.'],
      [1, 'Hello you there.'],
    ])
    expect(choices[1]!.logprobs!.content![0]).toEqual({ token: 'H', logprob: 0, bytes: [72], top_logprobs: [] })
    expect(choices[1]).toMatchObject({ token_ids: [...Buffer.from('Hello you there.\n')] })
    expect(answer).toMatchObject({ prompt_token_ids: [...Buffer.from('user: hi\nassistant: ')] })
  })

  test('completes text and token ids, until a stop or a limit', async () => {
    const { client } = await start()
    const ids = [...Buffer.from('once')]
    expect((await client.completions.create({ model: 'demo', prompt: ids, stop: ' there', max_tokens: 99 })).choices[0]).toMatchObject({
      ...{ text: 'Hello you', finish_reason: 'stop' },
    })
    let text = ''
    for await (const { choices } of await client.completions.create({ model: 'demo', prompt: 'once', max_tokens: 5, stream: true }))
      text += choices[0]!.text
    expect(text).toBe('Hello')
  })

  test('lists the models, and is told which errors it got', async () => {
    const { client } = await start()
    const names = []
    for await (const { id } of client.models.list()) names.push(id)
    expect(names).toEqual(['demo'])
    expect(await client.models.retrieve('demo')).toMatchObject({ id: 'demo', object: 'model' })
    const ask = (model: string, content = 'fail') => client.chat.completions.create({ model, messages: [{ role: 'user', content }] })
    await expect(ask('other')).rejects.toThrow(OpenAI.NotFoundError)
    await expect(ask('other')).rejects.toMatchObject({ code: 'model_not_found', param: 'model', type: 'invalid_request_error' })
    await expect(ask('demo')).rejects.toThrow(OpenAI.RateLimitError)
    await expect(client.chat.completions.create({ model: 'demo', messages: [] })).rejects.toThrow(OpenAI.BadRequestError)
  })
})

describe('LangChain', () => {
  const calculator = langChainTool(sum, { name: 'calculator', description, schema: parameters })
  const modelOf = ({ url }: TestEndpoint) =>
    new ChatOpenAI({ model: 'demo', apiKey: 'key', maxRetries: 0, configuration: { baseURL: `${url}/v1` } })

  test('calls tools', async () => {
    const endpoint = await start()
    const model = modelOf(endpoint).bindTools([calculator])
    const asked = await model.invoke('add')
    const results = await Promise.all(asked.tool_calls!.map((call) => calculator.invoke({ ...call, type: 'tool_call' })))
    const answer = await model.invoke([{ role: 'user', content: 'add' }, asked, ...results])
    expect(answer.text).toBe('It is 4 and 6.')
    await expectTwoCalls(endpoint)
  })

  test('streams, and is told errors', async () => {
    const endpoint = await start()
    const words: string[] = []
    for await (const chunk of await modelOf(endpoint).stream('hi')) words.push(chunk.text)
    expect(words.filter(Boolean)).toEqual(['Hello ', 'you ', 'there.'])
    await expect(modelOf(endpoint).invoke('fail')).rejects.toThrow('slow down')
  })
})

describe('@openai/agents', () => {
  setTracingDisabled(true)
  const calculator = agentTool({ name: 'calculator', description, parameters, execute: sum })
  const agent = new Agent({ name: 'adder', instructions: 'Add.', model: 'demo', tools: [calculator] })

  test.each([true, false])('runs an agent with tools, by responses: %s', async (useResponses) => {
    const endpoint = await start()
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: endpoint.client as never, useResponses }) })
    expect((await runner.run(agent, 'add')).finalOutput).toBe('It is 4 and 6.')
    const streamed = await runner.run(agent, 'add', { stream: true })
    for await (const _ of streamed);
    expect(streamed.finalOutput).toBe('It is 4 and 6.')
    expect((await endpoint.calls(4)).map(({ prompt }) => prompt[0])).toEqual(
      Array(4).fill({ role: 'system', parts: [{ kind: 'text', text: 'Add.' }] }),
    )
  })
})

describe('Vercel AI SDK', () => {
  const tools = { calculator: aiTool({ description, inputSchema: parameters, execute: async (input) => sum(input) }) }
  const models = {
    responses: ({ url }: TestEndpoint) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'key' })('demo'),
    chat: ({ url }: TestEndpoint) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'key' }).chat('demo'),
    compatible: ({ url }: TestEndpoint) => createOpenAICompatible({ baseURL: `${url}/v1`, apiKey: 'key', name: 'leyden' })('demo'),
  }

  test.each(Object.entries(models))('runs tools and streams: %s', async (_name, modelOf) => {
    const endpoint = await start()
    const ask = { model: modelOf(endpoint), tools, stopWhen: stepCountIs(3), maxRetries: 0 }
    expect((await generateText({ ...ask, prompt: 'add' })).text).toBe('It is 4 and 6.')
    expect(await streamText({ ...ask, prompt: 'add' }).text).toBe('It is 4 and 6.')
    const words: string[] = []
    for await (const word of streamText({ ...ask, prompt: 'hi' }).textStream) words.push(word)
    expect(words).toEqual(['Hello ', 'you ', 'there.'])
    await expect(generateText({ ...ask, prompt: 'fail' })).rejects.toThrow(APICallError)
    expect((await endpoint.calls(6))[3]!.completion!.parts).toEqual([{ kind: 'text', text: 'It is 4 and 6.' }])
  })
})
