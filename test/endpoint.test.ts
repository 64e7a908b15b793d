// Calls of the endpoint in the whole pipeline: with an agent that traces itself, with one that does not, and with one whose traces the
// endpoint cannot see.

import { context, propagation, trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { NodeSDK, resources, tracing } from '@opentelemetry/sdk-node'
import { OpenAIInstrumentation } from '@arizeai/openinference-instrumentation-openai'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'

import { freePort, startLeyden, type Leyden } from './leyden.ts'
import { endOf, reward, traces } from './spans.ts'

let leyden: Leyden
let url: string
beforeAll(async () => {
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  leyden = await startLeyden(`
receivers:
  openai:
    endpoint: "127.0.0.1:${port}"
    models:
      policy:
        engine: scripted
        answers:
          - {when: sum, text: Let me see., tool_calls: [{name: calculator, arguments: '{"a":2}'}]}
          - {when: bad, error: 500, text: it broke}
          - {text: It is 4.}
processors: {policy_calls: {policies: [{name: default, models: [policy]}]}}
service: {pipelines: {traces: {receivers: [otlp, openai]}}}`)
})
afterAll(() => leyden.remove())

/** An agent in two turns. */
async function runAgent(client: OpenAI): Promise<string[]> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'sum' }]
  const asked = await client.chat.completions.create({ model: 'policy', messages, temperature: 1 })
  messages.push(asked.choices[0]!.message, { role: 'tool', tool_call_id: asked.choices[0]!.message.tool_calls![0]!.id, content: '4' })
  const stream = await client.chat.completions.create({ model: 'policy', messages, temperature: 1, stream: true })
  let id = ''
  for await (const chunk of stream) id = chunk.id
  return [asked.id, id]
}

const transitionsOf = (rollout: string, count: number) =>
  leyden.rows(
    count,
    `SELECT step, parent_step, response_id, trace_id, agent, token_source, length(response_token_ids) AS tokens,
       length(response_logprobs) AS logprobs, reward_outcome FROM transitions WHERE rollout_id = '${rollout}' ORDER BY step`,
  )

/** The transcript's bytes: what the script says, its tool call, and the end. */
const TOKENS = ['Let me see.<tool_call>calculator {"a":2}</tool_call>\n'.length, 'It is 4.\n'.length]

test('an agent without any tracing: each call is a transition, and those of an attempt are one trace', async () => {
  const ids = await runAgent(new OpenAI({ baseURL: `${url}/rollout/silent/attempt/a1/v1`, apiKey: 'key' }))
  await leyden.post('logs', endOf('silent', 'succeeded', 'a1'))
  const rows = await transitionsOf('silent', 2)
  expect(rows).toMatchObject([
    { step: 0, parent_step: -1, response_id: ids[0], token_source: 'engine', tokens: TOKENS[0], logprobs: TOKENS[0] },
    { step: 1, parent_step: 0, response_id: ids[1], token_source: 'engine', tokens: TOKENS[1], logprobs: TOKENS[1] },
  ])
  expect(rows[0]!.trace_id).toBe(rows[1]!.trace_id)
  expect(await leyden.query(`SELECT status, complete, calls, attempt_id FROM rollouts FINAL WHERE rollout_id = 'silent'`)).toEqual([
    { status: 'succeeded', complete: true, calls: 2, attempt_id: 'a1' },
  ])
})

test('a call that failed is a reject', async () => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'key', maxRetries: 0, defaultHeaders: { 'x-rollout-id': 'failed' } })
  await expect(client.chat.completions.create({ model: 'policy', messages: [{ role: 'user', content: 'bad' }] })).rejects.toThrow(
    'it broke',
  )
  await leyden.post('logs', endOf('failed', 'failed'))
  expect(await leyden.rows(1, `SELECT reason FROM rejects WHERE rollout_id = 'failed'`)).toEqual([{ reason: 'outputMissing' }])
})

test('calls that the agent traces too are one with those of the endpoint, by response id', async () => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'key', defaultHeaders: { 'x-rollout-id': 'apart' } })
  const [first] = await runAgent(client)
  const seen = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'policy', 'gen_ai.response.id': first! }
  const now = Date.now() - 1_764_000_000_000
  await leyden.post(
    'traces',
    traces(
      'apart',
      [
        {
          id: 'apart-run',
          name: 'invoke_agent solver',
          at: now - 5_000,
          for: 10_000,
          attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'solver' },
        },
        { id: 'apart-call', parent: 'apart-run', at: now - 4_000, for: 8_000, attributes: seen },
        reward('apart-reward', 1, { parent: 'apart-run', at: now + 4_500, for: 1 }),
      ],
      { 'leyden.rollout.id': 'apart' },
    ),
  )
  await leyden.post('logs', endOf('apart'))
  const rows = await leyden.rows(
    2,
    `SELECT agent, response_id, length(response_token_ids) AS tokens FROM transitions WHERE rollout_id = 'apart' AND reward_outcome = 1`,
  )
  expect(rows).toHaveLength(2)
  expect(rows.find(({ response_id }) => response_id === first)).toEqual({ agent: 'solver', response_id: first, tokens: TOKENS[0] })
})

test('an agent traced by OpenTelemetry keeps its place in the tree, and the endpoint adds its tokens', async () => {
  const exporter = new OTLPTraceExporter({ url: `${leyden.url}/v1/traces` })
  const sdk = new NodeSDK({
    resource: resources.resourceFromAttributes({ 'leyden.rollout.id': 'traced', 'leyden.attempt.id': 'a1' }),
    spanProcessors: [new tracing.SimpleSpanProcessor(exporter)],
  })
  sdk.start()
  const instrumentation = new OpenAIInstrumentation()
  instrumentation.manuallyInstrument(OpenAI)
  /** What the instrumentation of fetch does for an agent. */
  const withContext: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers)
    propagation.inject(context.active(), headers, { set: (to, key, value) => to.set(key, value) })
    return fetch(input, { ...init, headers })
  }
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'key', fetch: withContext })
  const attributes = { 'openinference.span.kind': 'AGENT', 'agent.name': 'solver' }
  const { traceId } = await trace.getTracer('test').startActiveSpan('solver', { attributes }, async (span) => {
    await runAgent(client)
    span.end()
    return span.spanContext()
  })
  await sdk.shutdown()
  instrumentation.disable()
  await leyden.post('logs', endOf('traced', 'succeeded', 'a1'))

  expect(await transitionsOf('traced', 2)).toMatchObject([
    { trace_id: traceId, agent: 'solver', tokens: TOKENS[0], logprobs: TOKENS[0], parent_step: -1 },
    { trace_id: traceId, agent: 'solver', tokens: TOKENS[1], logprobs: TOKENS[1], parent_step: 0 },
  ])
  const [{ calls, complete }] = (await leyden.query(`SELECT calls, complete FROM rollouts FINAL WHERE rollout_id = 'traced'`)) as [
    { calls: number; complete: boolean },
  ]
  expect({ calls, complete }).toEqual({ calls: 2, complete: true })
})
