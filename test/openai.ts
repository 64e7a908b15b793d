// An endpoint on a free port for tests, what it recorded, and an official client of it; and a server to stand behind it.

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import OpenAI from 'openai'
import { onTestFinished } from 'vitest'

import { readItems, type ReadResult } from '../data/reading.ts'
import { readItem } from '../data/scan.ts'
import type { Span } from '../data/span.ts'
import { detached, type SpanBatch } from '../data/span_batch.ts'
import { dialects } from '../dialects/index.ts'
import openai from '../receivers/openai.ts'
import { configure, testContext, type TestContext } from './conformance.ts'

export interface TestEndpoint {
  readonly url: string
  readonly client: OpenAI
  readonly context: TestContext
  /** The spans of so many calls, once they are recorded. */
  spans(count: number): Promise<Span[]>
  /** The same as a rollout would read them. */
  calls(count: number): Promise<ReadResult['calls']>
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>
  stop(): Promise<void>
}

interface Around {
  readonly extensions?: object
  /** What stands behind it; unless told, it keeps everything. */
  readonly take?: (batches: readonly SpanBatch[]) => Promise<void>
  /** Whether it outlives the test. */
  readonly keep?: boolean
}

/** @param options of the receiver, as a user writes them */
export async function startEndpoint(
  options: Record<string, unknown>,
  { extensions = {}, take, keep = false }: Around = {},
): Promise<TestEndpoint> {
  const context = testContext({ id: 'openai', kind: 'receiver', extensions })
  const receiver = configure(openai, { endpoint: 'localhost:0', ...options }, context)
  const batches: SpanBatch[] = []
  await receiver.start({ traces: take ?? (async (items) => void batches.push(...items.map(detached))) })
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= receiver.shutdown!())
  if (!keep) onTestFinished(stop)
  const url = `http://${String(context.lines.find(({ text }) => text === 'info Starting HTTP server')!.fields!.endpoint)}`

  async function spans(count: number): Promise<Span[]> {
    for (const until = Date.now() + 5_000; ; await new Promise((resolve) => setTimeout(resolve, 5))) {
      const found = batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i) as Span))
      if (found.length >= count || Date.now() > until) return found
    }
  }

  return {
    ...{ url, context, spans, stop },
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'key', maxRetries: 0 }),
    calls: async (count) => readItems(await spans(count), dialects).calls,
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
  }
}

export const scripted = (answers: readonly object[], more: object = {}) => ({ models: { demo: { engine: 'scripted', answers, ...more } } })

/** Asked for a sum, it calls the calculator twice at once; with what that says it answers. */
export const adder = [
  {
    when: 'add',
    text: 'Let me see.',
    tool_calls: [
      { name: 'calculator', arguments: '{"a":2,"b":2}' },
      { name: 'calculator', arguments: '{"a":3,"b":3}' },
    ],
  },
  { when: '^6$', text: 'It is 4 and 6.' },
  { when: 'fail', error: 429, text: 'slow down' },
  { text: 'Hello you there.' },
]

/** A server that answers as told, and what it was sent. */
export async function startUpstream(answer: (body: Record<string, any>, request: IncomingMessage, response: ServerResponse) => void) {
  const asked: { path: string; headers: IncomingMessage['headers']; body: Record<string, any> }[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as Record<string, any>
    asked.push({ path: request.url!, headers: request.headers, body })
    answer(body, request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close().closeAllConnections())
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` }
}
