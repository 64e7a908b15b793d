import { setTimeout as sleep } from 'node:timers/promises'

import { describe, expect, test } from 'vitest'

import { Unauthenticated } from '../pipeline/auth.ts'
import { Permanent, Refused } from '../pipeline/component.ts'
import { conforms, problems } from '../test/conformance.ts'
import { scripted, startEndpoint } from '../test/openai.ts'
import openai from './openai.ts'

conforms(openai, scripted([{ text: 'Hello.' }]))

const question = [{ role: 'user' as const, content: 'What is 2 + 2?' }]
const chat = '/v1/chat/completions'

test('a chat is answered and becomes a call with its messages, token ids and logprobs', async () => {
  const { client, calls } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
  const answer = await client.chat.completions.create({ model: 'demo', messages: question, temperature: 0.5 })
  expect(answer.choices).toMatchObject([{ message: { role: 'assistant', content: 'It is 4.' }, finish_reason: 'stop' }])
  expect(await calls(1)).toMatchObject([
    {
      operation: 'chat',
      request_model: 'demo',
      response_id: answer.id,
      prompt: [{ role: 'user', parts: [{ kind: 'text', text: 'What is 2 + 2?' }] }],
      completion: { parts: [{ kind: 'text', text: 'It is 4.' }] },
      params: { temperature: 0.5 },
      finish: 'stop',
      usage: { input: answer.usage!.prompt_tokens, output: answer.usage!.completion_tokens },
      tokens: { response: [...Buffer.from('It is 4.\n')], logprobs: Array(9).fill(0) },
      flags: [],
    },
  ])
})

test('a stream comes word by word and is recorded as the same call', async () => {
  const { client, calls } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
  const asked = { model: 'demo', messages: question, stream: true as const, stream_options: { include_usage: true } }
  const chunks = []
  for await (const chunk of await client.chat.completions.create(asked)) chunks.push(chunk)
  expect(chunks.map(({ choices }) => choices[0]?.delta.content).filter(Boolean)).toEqual(['It ', 'is ', '4.'])
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 9 } })
  expect(await calls(1)).toMatchObject([
    { completion: { parts: [{ text: 'It is 4.' }] }, response_id: chunks[0]!.id, usage: { output: 9 } },
  ])
})

test('a client that hangs up ends the answer', async () => {
  const { client, spans } = await startEndpoint(scripted([{ text: 'one two three' }], { word_interval: '1m' }))
  for await (const _ of await client.chat.completions.create({ model: 'demo', messages: question, stream: true })) break
  expect(await spans(1)).toMatchObject([{ status: 2, attributes: { 'error.type': 'client_closed_request' } }])
})

test('calls are recorded although somebody still waits for an answer', async () => {
  const { client, spans } = await startEndpoint(scripted([{ text: 'one two' }], { word_interval: '1m' }))
  const ask = { model: 'demo', messages: question, stream: true as const }
  const waiting = await client.chat.completions.create(ask)
  for (let i = 0; i < 3; i++) for await (const _ of await client.chat.completions.create(ask)) break
  expect(await spans(3)).toHaveLength(3)
  waiting.controller.abort()
})

test('whatever is answered says which request it answers', async () => {
  const { url, post } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
  const ask = { model: 'demo', messages: question }
  const answers = [
    await post(chat, ask),
    await post(chat, { ...ask, stream: true }),
    await post(chat, { ...ask, model: 'none' }),
    await post('/v1/none', ask),
    await fetch(`${url}/v1/models`),
    await fetch(`${url}/health/ready`),
  ]
  const ids = answers.map(({ headers }) => headers.get('x-request-id'))
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{24}$/)
  expect(new Set(ids).size).toBe(answers.length)
})

test('a request is answered as one that node:http reads, which a query is left to', async () => {
  const { post } = await startEndpoint({ ...scripted([{ when: 'fail', error: 429, text: 'slow down' }, { text: 'It is 4.' }]) })
  const ask = { model: 'demo', messages: question }
  const fail = [{ role: 'user', content: 'fail' }]
  for (const body of [ask, { ...ask, stream: true }, { ...ask, model: 'none' }, { ...ask, messages: fail }, '{"model":', {}]) {
    const [plain, other] = await Promise.all(['', '?api-version=1'].map(async (query) => shown(await post(chat + query, body))))
    expect(plain).toEqual(other)
  }
})

async function shown(answer: Response) {
  const { date: _date, 'x-request-id': _id, ...headers } = Object.fromEntries(answer.headers)
  const body = (await answer.text()).replaceAll(/chatcmpl-[0-9a-f]+|"created":\d+/g, '')
  return { status: answer.status, headers, body }
}

describe('a call is made for the rollout that is named', () => {
  const named = { 'leyden.rollout.id': 'r 1', 'leyden.attempt.id': 'a1' }
  test.each<[string, string, Record<string, string>, Record<string, string>]>([
    ['in the path', '/rollout/r%201/attempt/a1', {}, named],
    ['in headers', '', { 'x-rollout-id': 'r 1', 'x-attempt-id': 'a1' }, named],
    ['in baggage', '', { baggage: 'leyden.rollout.id=r%201;x=y, agentlightning.attempt_id=a1' }, named],
    ['in the path before the headers', '/rollout/r%201/attempt/a1', { 'x-rollout-id': 'other', baggage: 'leyden.rollout.id=other' }, named],
    [
      'with its task, its group and its mode',
      '/rollout/r%201/mode/val',
      { 'x-leyden-task-id': 't1', 'x-leyden-group-id': 'g1', 'x-leyden-group-size': '8' },
      { 'leyden.rollout.id': 'r 1', 'leyden.mode': 'val', 'leyden.task.id': 't1', 'leyden.group.id': 'g1', 'leyden.group.size': '8' },
    ],
  ])('%s', async (_where, prefix, headers, attributes) => {
    const { post, spans } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
    expect((await post(prefix + chat, { model: 'demo', messages: question }, headers)).status).toBe(200)
    const [span] = await spans(1)
    expect(
      Object.fromEntries(Object.entries(span!.attributes).filter(([key]) => /^leyden\.(rollout|attempt|task|group|mode)/.test(key))),
    ).toEqual(attributes)
  })
})

describe('is refused, with the status that a client decides by, and recorded as a call that failed:', () => {
  const ask = { model: 'demo', messages: question }
  const tool = (fn: unknown) => ({ ...ask, tools: [{ type: 'function', function: fn }] })
  test.each<[string, unknown, number, string | null, string | null]>([
    ['what is no JSON', '{"model": "demo"', 400, 'invalid_json', null],
    ['what is no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 400, 'invalid_json', null],
    ['a list', [], 400, 'invalid_json', null],
    ['a body that is too large', { ...ask, user: 'x'.repeat(600_000) }, 413, null, null],
    ['no model', { messages: question }, 400, 'invalid_type', 'model'],
    ['a model that there is not', { ...ask, model: 'other' }, 404, 'model_not_found', 'model'],
    ['a version of what has none', { ...ask, model: 'demo@1' }, 404, 'model_not_found', 'model'],
    ['no messages', { model: 'demo' }, 400, null, 'messages'],
    ['messages of text', { ...ask, messages: 'hi' }, 400, 'invalid_type', 'messages'],
    ['10,000 messages', { ...ask, messages: Array(10_000).fill(question[0]) }, 400, 'array_above_max_length', 'messages'],
    ['a role that there is not', { ...ask, messages: [{ role: 'wizard', content: 'x' }] }, 400, 'invalid_type', 'messages[0].role'],
    [
      'an answer of a tool that nobody called',
      { ...ask, messages: [{ role: 'tool', tool_call_id: 'x', content: '4' }] },
      400,
      null,
      'messages[0].tool_call_id',
    ],
    ['negative max_tokens', { ...ask, max_tokens: -1 }, 400, 'invalid_type', 'max_tokens'],
    ['temperature as text', { ...ask, temperature: 'hot' }, 400, 'invalid_type', 'temperature'],
    ['a stop that is empty', { ...ask, stop: ['a', ''] }, 400, 'invalid_type', 'stop[1]'],
    ['what it cannot do', { ...ask, logit_bias: { 5: 1 } }, 400, 'unsupported_parameter', 'logit_bias'],
    ['top_logprobs without logprobs', { ...ask, top_logprobs: 2 }, 400, null, 'top_logprobs'],
    ['a tool of a kind that there is not', { ...ask, tools: [{ type: 'teleport' }] }, 400, 'invalid_type', 'tools[0]'],
    ['a tool without a name', tool({}), 400, 'invalid_type', 'tools[0].function.name'],
    ['a schema that is text', tool({ name: 'f', parameters: 'x' }), 400, 'invalid_function_parameters', 'tools[0].function.parameters'],
    [
      'a schema of a list',
      tool({ name: 'f', parameters: { type: 'array' } }),
      400,
      'invalid_function_parameters',
      'tools[0].function.parameters',
    ],
    [
      'a type that there is not',
      tool({ name: 'f', parameters: { properties: { a: { type: 'int' } } } }),
      400,
      'invalid_function_parameters',
      'tools[0].function.parameters',
    ],
    [
      'a tool_choice that there is not',
      { ...tool({ name: 'f' }), tool_choice: { type: 'function', function: { name: 'g' } } },
      400,
      null,
      'tool_choice',
    ],
  ])('%s', async (_what, body, status, code, param) => {
    const { post, spans, client } = await startEndpoint({ ...scripted([{ text: 'It is 4.' }]), max_request_body_size: 600_000 })
    const answer = await post(chat, body)
    expect(answer.status).toBe(status)
    expect(await answer.json()).toEqual({ error: { message: expect.any(String), type: 'invalid_request_error', code, param } })
    expect(await spans(1)).toMatchObject([{ status: 2, attributes: { 'http.response.status_code': status } }])
    expect((await client.chat.completions.create(ask)).choices[0]!.message.content).toBe('It is 4.')
  })

  test('a path that there is not, which is no call', async () => {
    const { url, post, spans } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
    expect((await post('/v1/embeddings', ask)).status).toBe(404)
    expect((await fetch(url + chat)).status).toBe(404)
    expect((await fetch(`${url}/v1/models/other`)).status).toBe(404)
    await post(chat, ask)
    expect(await spans(1)).toHaveLength(1)
  })
})

describe('limits', () => {
  const extensions = {
    keys: {
      async authenticate(header: (name: string) => string | undefined) {
        if (!/^Bearer [ab]$/.test(header('authorization') ?? '')) throw new Unauthenticated('the token is not known', 'Bearer')
      },
    },
  }
  const auth = { authenticator: 'keys' }
  const ask = { model: 'demo', messages: question }
  const as = (key: string) => ({ authorization: `Bearer ${key}` })

  test('a key that is not known is refused before its body is read, and is no call', async () => {
    const { post, url, context } = await startEndpoint({ ...scripted([{ text: 'yes' }]), auth }, { extensions })
    const answer = await post(chat, ask, as('c'))
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
    expect(await answer.json()).toMatchObject({ error: { code: 'invalid_api_key', type: 'authentication_error' } })
    expect((await fetch(`${url}/v1/models`)).status).toBe(401)
    expect((await fetch(`${url}/health/live`)).status).toBe(200)
    expect((await post(chat, ask, as('a'))).status).toBe(200)
    expect(context.counts).toMatchObject({ receiver_unauthenticated_requests: 2 })
  })

  test('each key has its own requests in a minute, and is told when to come again', async () => {
    const limits = { requests_per_minute_per_key: 2 }
    const { post } = await startEndpoint({ ...scripted([{ text: 'yes' }]), auth, limits }, { extensions })
    const statuses = async (key: string) => [await post(chat, ask, as(key)), await post(chat, ask, as(key)), await post(chat, ask, as(key))]
    const answers = await statuses('a')
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(Number(answers[2]!.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await statuses('b')).map(({ status }) => status)).toEqual([200, 200, 429])
  })

  test('each key has so many requests at a time, and all together have', async () => {
    const limits = { max_requests: 2, max_requests_per_key: 1 }
    const slow = scripted([{ when: 'slow', text: 'one two' }, { text: 'yes' }], { word_interval: '1m' })
    const { post } = await startEndpoint({ ...slow, auth, limits, drain_timeout: '10ms' }, { extensions })
    const begin = (key: string) => post(chat, { ...ask, messages: [{ role: 'user', content: 'slow' }], stream: true }, as(key))
    await begin('a')
    expect((await post(chat, ask, as('a'))).status).toBe(429)
    expect((await post(chat, ask, as('b'))).status).toBe(200)
    await begin('b')
    expect((await post(chat, ask, as('b'))).status).toBe(503)
  })
})

test('a stopping endpoint finishes what it has begun, is not ready for more, and ends what takes too long', async () => {
  const script = scripted([{ when: 'slow', text: 'one two' }, { text: 'a b c d' }], { word_interval: '30ms' })
  const { url, post, stop, spans, context } = await startEndpoint({ ...script, drain_timeout: '2s' })
  expect(await (await fetch(`${url}/health/ready`)).json()).toEqual({ status: 'ready', problems: [] })
  const answer = post(chat, { model: 'demo', messages: question })
  while (context.gauges.leyden_endpoint_requests!() === 0) await sleep(1)
  await stop()
  expect(await (await answer).json()).toMatchObject({ choices: [{ message: { content: 'a b c d' } }] })
  expect(await spans(1)).toMatchObject([{ status: 0 }])
  await expect(fetch(url)).rejects.toThrow()

  const late = await startEndpoint({ ...scripted([{ text: 'a b' }], { word_interval: '1m' }), drain_timeout: '30ms' })
  const begun = await late.post(chat, { model: 'demo', messages: question, stream: true })
  await late.stop()
  expect(await begun.text()).toMatch(/data: \{"error":\{"message":"the endpoint is stopping"/)
  expect(await late.spans(1)).toMatchObject([{ status: 2, attributes: { 'error.type': 'stopping' } }])
})

// That they are stored when they can be again: test/clickhouse_trouble.test.ts.
describe('while its spans cannot be stored', () => {
  const ask = { model: 'demo', messages: question }

  test('it goes on, and counts those that there is no room for', async () => {
    const { post, context, stop } = await startEndpoint(
      { ...scripted([{ text: 'yes' }]), queue_mib: 1, drain_timeout: '50ms' },
      {
        async take() {
          throw new Refused('ClickHouse is away')
        },
      },
    )
    const large = { ...ask, messages: [{ role: 'user', content: 'x'.repeat(200_000) }] }
    for (let i = 0; i < 4; i++) expect((await post(chat, large)).status).toBe(200)
    await sleep(20)
    expect(context.counts.leyden_endpoint_calls_lost).toBeGreaterThan(0)
    expect(context.gauges.leyden_endpoint_queued_bytes!()).toBeLessThan(2 ** 20)
    expect(context.lines.filter(({ text }) => text.startsWith('warn Calls are answered'))).toHaveLength(1)
    await stop()
    expect(context.counts).toMatchObject({ leyden_endpoint_calls_lost: 4, receiver_refused_spans: 4 })
  })

  test('many large ones go on in several batches, none of which a server would find too large', async () => {
    const taken: { count: number; bytes: number }[] = []
    const { post } = await startEndpoint(scripted([{ text: 'yes' }]), {
      take: async (batches) => void taken.push(...batches.map(({ count, body }) => ({ count, bytes: body.length }))),
    })
    const large = { ...ask, messages: [{ role: 'user', content: 'x'.repeat(100_000) }] }
    await Promise.all(Array.from({ length: 8 }, () => post(chat, large)))
    while (taken.reduce((sum, { count }) => sum + count, 0) < 8) await sleep(1)
    expect(Math.max(...taken.map(({ bytes }) => bytes))).toBeLessThan(2 * 1024 * 1024)
  })

  test('what will never be taken is counted and not kept', async () => {
    const { post, context } = await startEndpoint(scripted([{ text: 'yes' }]), {
      async take() {
        throw new Permanent('no')
      },
    })
    await post(chat, ask)
    await sleep(20)
    expect(context.counts).toMatchObject({ leyden_endpoint_calls_lost: 1 })
    expect(context.gauges.leyden_endpoint_queued_bytes!()).toBe(0)
  })
})

test.each<[string, object, string]>([
  ['an upstream that is nowhere', { engine: 'upstream' }, 'openai::models::m: needs "url"'],
  ['an upstream that is no URL', { engine: 'upstream', url: 'localhost' }, 'models::m::url: must be a URL'],
  ['a script that says nothing', { engine: 'scripted' }, 'needs "answers"'],
  [
    'a rule that is no regular expression',
    { engine: 'scripted', answers: [{ when: '(', text: 'x' }] },
    'models::m::answers::0::when: must be a regular expression',
  ],
  ['a builtin without a model', { engine: 'builtin' }, 'needs "policy", or "base"'],
])('a configuration is told: %s', (_what, model, message) => {
  expect(problems(openai, { models: { m: model } })).toEqual([expect.stringContaining(message.replace('openai::', ''))])
})
