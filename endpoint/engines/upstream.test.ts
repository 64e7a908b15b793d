import { once } from 'node:events'
import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

import OpenAI from 'openai'
import { expect, test } from 'vitest'

import { startEndpoint, startUpstream } from '../../test/openai.ts'

const messages = [{ role: 'user' as const, content: 'hi' }]

const json = (response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}) =>
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))

const answer = (content: string, more: object = {}) => ({
  ...{
    id: 'chatcmpl-up',
    object: 'chat.completion',
    created: 1,
    model: 'served',
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  },
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop', ...more }],
})

const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'served', choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`

const behind = (url: string, more: object = {}) => ({ models: { mine: { engine: 'upstream', url, ...more } } })

test('an answer is passed on as it came, and recorded', async () => {
  const { url, asked } = await startUpstream((_body, _request, response) =>
    json(response, 200, answer('Hello.'), { 'x-request-id': 'up-1' }),
  )
  const endpoint = await startEndpoint(behind(url, { model: 'served', api_key: 'sk-secret' }))
  const { data, response } = await endpoint.client.chat.completions.create({ model: 'mine', messages, temperature: 0.3 }).withResponse()
  expect(data).toMatchObject(answer('Hello.'))
  expect(response.headers.get('x-request-id')).toBe('up-1')
  expect(asked).toMatchObject([{ path: '/v1/chat/completions', body: { model: 'served', temperature: 0.3, messages } }])
  expect(asked[0]!.headers.authorization).toBe('Bearer sk-secret')
  expect(await endpoint.calls(1)).toMatchObject([
    {
      ...{ request_model: 'mine', response_model: 'served', response_id: 'chatcmpl-up', endpoint: new URL(url).host },
      ...{ params: { temperature: 0.3 }, finish: 'stop', usage: { input: 3, output: 2 }, tokens: undefined },
      completion: { parts: [{ text: 'Hello.' }] },
    },
  ])
  expect(
    JSON.stringify([await endpoint.spans(1), endpoint.context.lines], (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
  ).not.toContain('sk-secret')
})

test('only headers on the list are passed on, the key of the client never, and the call is what the server sees as its parent', async () => {
  const { url, asked } = await startUpstream((_body, _request, response) => json(response, 200, answer('Hello.')))
  const endpoint = await startEndpoint(behind(url, { forward_headers: ['X-Team', 'traceparent'] }))
  const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const reply = await endpoint.post(
    '/v1/chat/completions',
    { model: 'mine', messages },
    { authorization: 'Bearer client', 'x-team': 'a', 'x-other': 'b', traceparent: parent },
  )
  // The server gives its answer no id.
  expect(reply.headers.get('x-request-id')).toMatch(/^[0-9a-f]{24}$/)
  const [span] = await endpoint.spans(1)
  expect(span).toMatchObject({ trace_id: '0af7651916cd43dd8448eb211c80319c', parent_span_id: 'b7ad6b7169203331' })
  expect(asked[0]!.headers).toMatchObject({ 'x-team': 'a', traceparent: `00-${span!.trace_id}-${span!.span_id}-01` })
  expect(Object.keys(asked[0]!.headers)).not.toContain('x-other')
  expect(Object.keys(asked[0]!.headers)).not.toContain('authorization')
})

test('a stream is passed on byte for byte, each part when it comes, and its token ids are recorded', async () => {
  const parts = [
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'Hé' }, { token_ids: [7], logprobs: { content: [{ token: 'Hé', logprob: -0.5 }] } }),
    chunk({ content: 'llo' }, { token_ids: [8], logprobs: { content: [{ token: 'llo', logprob: -0.25 }] } }),
    chunk({}, { finish_reason: 'stop' }),
    ': a comment\n\ndata: [DONE]\n\n',
  ]
  parts[0] = parts[0]!.replace('"created"', '"prompt_token_ids":[1,2,3],"created"')
  let go = () => {}
  const { url, asked } = await startUpstream(async (_body, _request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(parts[0]!)
    // The next part comes only when the client has the first, cut in the middle of a character.
    await new Promise<void>((resolve) => (go = resolve))
    const rest = Buffer.from(parts.slice(1).join(''))
    response.write(rest.subarray(0, rest.indexOf(0xc3) + 1))
    response.end(rest.subarray(rest.indexOf(0xc3) + 1))
  })
  const endpoint = await startEndpoint(behind(url, { token_ids: true }))
  const reply = await endpoint.post('/v1/chat/completions', { model: 'mine', messages, stream: true })
  expect(reply.headers.get('x-request-id')).toMatch(/^[0-9a-f]{24}$/)
  const reader = reply.body!.getReader()
  const received = [Buffer.from((await reader.read()).value!)]
  expect(received[0]!.toString()).toBe(parts[0])
  go()
  for (let part = await reader.read(); !part.done; part = await reader.read()) received.push(Buffer.from(part.value))
  expect(Buffer.concat(received).toString()).toBe(parts.join(''))
  expect(asked[0]!.body).toMatchObject({ return_token_ids: true, logprobs: true, stream: true })
  expect(await endpoint.calls(1)).toMatchObject([
    {
      completion: { parts: [{ text: 'Héllo' }] },
      tokens: { prompt: [1, 2, 3], response: [7, 8], logprobs: [-0.5, -0.25] },
      finish: 'stop',
    },
  ])
})

test('a client that hangs up ends the request, and the call is no answer', async () => {
  let ended: Promise<unknown[]> | undefined
  const { url } = await startUpstream((_body, _request, response) => {
    ended = once(response, 'close')
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunk({ content: 'Hello' }))
  })
  const endpoint = await startEndpoint(behind(url))
  const stream = await endpoint.client.chat.completions.create({ model: 'mine', messages, stream: true })
  for await (const _ of stream) break
  await ended
  expect(await endpoint.spans(1)).toMatchObject([{ status: 2, attributes: { 'error.type': 'client_closed_request' } }])
  expect((await endpoint.calls(1))[0]).toMatchObject({ completion: undefined, flags: ['outputMissing'] })
})

test('a client that is slow is waited for, longer than a server may be silent', async () => {
  const part = chunk({ content: 'x'.repeat(60_000) })
  const { url } = await startUpstream((_body, _request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let i = 0; i < 300; i++) response.write(part)
    response.end()
  })
  const endpoint = await startEndpoint(behind(url.replace('127.0.0.1', 'localhost'), { timeout: '1s' }))
  const asked = request(`${endpoint.url}/v1/chat/completions`, { method: 'POST' })
  asked.end(JSON.stringify({ model: 'mine', messages, stream: true }))
  const [reply] = (await once(asked, 'response')) as [IncomingMessage]
  await sleep(2_200)
  expect((await buffer(reply)).equals(Buffer.from(part.repeat(300)))).toBe(true)
  expect(await endpoint.spans(1)).toMatchObject([{ status: 0 }])
})

test('headers about the connection are not passed on, and a key that is no header is told at the start', async () => {
  const { url, asked } = await startUpstream((_body, _request, response) => json(response, 200, answer('Hello.')))
  const endpoint = await startEndpoint(behind(url, { forward_headers: ['host', 'connection', 'content-length', 'x-team'] }))
  const body = { model: 'mine', messages, 'a member': 'that makes it longer than what is sent' }
  expect((await endpoint.post('/v1/chat/completions', body, { 'x-team': 'a' })).status).toBe(200)
  expect(asked[0]!.headers).toMatchObject({ 'x-team': 'a', host: new URL(url).host, connection: 'keep-alive' })
  await expect(startEndpoint(behind(url, { api_key: 'sk-1\nx: y' }))).rejects.toThrow('has a character that no header may have')
})

test('a server that is starting is tried again, as long as nothing has come', async () => {
  let tries = 0
  const { url } = await startUpstream((_body, request, response) => {
    tries++
    if (tries === 1) request.socket.destroy()
    else if (tries === 2) response.writeHead(503).end()
    else json(response, 200, answer('Hello.'))
  })
  const endpoint = await startEndpoint(behind(url))
  expect((await endpoint.client.chat.completions.create({ model: 'mine', messages })).choices[0]!.message.content).toBe('Hello.')
  expect(endpoint.context.counts).toMatchObject({ leyden_endpoint_upstream_retries: 2 })
})

test.each<[string, (response: ServerResponse) => void, number, string, object?]>([
  ['answers with a page', (r) => r.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'), 502, '<h1>Hello</h1>'],
  ['answers with an error page', (r) => r.writeHead(500, { 'content-type': 'text/html' }).end('<h1>Oops</h1>'), 502, '<h1>Oops</h1>'],
  [
    'is too busy',
    (r) => json(r, 429, { error: { message: 'slow down', type: 'x', code: 'busy' } }, { 'retry-after': '7' }),
    429,
    'slow down',
    { 'retry-after': '7' },
  ],
  ['is too busy, says a page', (r) => r.writeHead(429, { 'retry-after': '7' }).end('busy'), 429, 'busy', { 'retry-after': '7' }],
  [
    'finds the request wrong',
    (r) => json(r, 400, { error: { message: 'no such thing', type: 'x', code: null, param: 'n' } }),
    400,
    'no such thing',
  ],
  [
    'breaks off',
    (r) => r.writeHead(200, { 'content-type': 'application/json', 'content-length': 99 }).write('{"id"', () => r.destroy()),
    502,
    'broke off',
  ],
  ['never answers', () => {}, 504, 'did not answer within 0.1 s'],
])('a server that %s', async (_what, behave, status, message, headers = {}) => {
  const { url } = await startUpstream((_body, _request, response) => behave(response))
  const endpoint = await startEndpoint(behind(url, { timeout: '100ms' }))
  const error = await endpoint.client.chat.completions
    .create({ model: 'mine', messages })
    .catch((e: unknown) => e as InstanceType<typeof OpenAI.APIError>)
  expect(error).toMatchObject({ status, message: expect.stringContaining(message) })
  expect(Object.fromEntries((error as { headers: Headers }).headers)).toMatchObject(headers)
  expect(await endpoint.spans(1)).toMatchObject([{ status: 2, attributes: { 'http.response.status_code': status } }])
})

test('a server that is not there', async () => {
  const endpoint = await startEndpoint(behind('http://127.0.0.1:9/v1', { retries: 0 }))
  await expect(endpoint.client.chat.completions.create({ model: 'mine', messages })).rejects.toMatchObject({
    status: 502,
    code: 'upstream_unreachable',
  })
})

test('a server that dies in the middle of a stream ends it with an error', async () => {
  const { url } = await startUpstream((_body, _request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunk({ content: 'Hel' }), () => response.destroy())
  })
  const endpoint = await startEndpoint(behind(url))
  const received: string[] = []
  const read = async () => {
    for await (const { choices } of await endpoint.client.chat.completions.create({ model: 'mine', messages, stream: true }))
      received.push(choices[0]!.delta.content!)
  }
  await expect(read()).rejects.toThrow('broke off')
  expect(received).toEqual(['Hel'])
  expect(await endpoint.spans(1)).toMatchObject([{ status: 2, attributes: { 'error.type': 'upstream_died' } }])
})
