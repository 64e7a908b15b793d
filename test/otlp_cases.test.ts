// Every case of fixtures/otlp against a running receiver: the OTLP 1.11 specification, both signals,
// both transports.

import { readFileSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'

import { afterAll, describe, expect, test } from 'vitest'

import { toJson } from '../data/otlp_json.ts'
import { detached, spanId, traceId, type SpanBatch } from '../data/span_batch.ts'
import bearer_token_auth from '../extensions/bearer_token_auth.ts'
import { Permanent, Refused, type Component, type Receiver } from '../pipeline/component.ts'
import otlp from '../receivers/otlp.ts'
import { configure, testContext } from './conformance.ts'
import { bodyOf, protobufOf, type Body } from './otlp/bodies.ts'
import { sendGrpc, sendHttp, type Answer } from './otlp/client.ts'
import { differences, type Outcome } from './otlp/expect.ts'

interface Case {
  id: string
  requirement: string
  transport: 'http' | 'grpc'
  method: string
  path: string
  headers: Record<string, string>
  body?: Body
  gzip?: boolean
  chunked?: boolean
  repeat?: number
  concurrency?: number
  same_connection?: boolean
  http_version?: string
  abort_after_bytes?: number
  compressed_flag?: 0 | 1
  config?: { http?: object; grpc?: object; extensions?: Record<string, object> }
  downstream?: { fail: 'retryable' | 'permanent' | 'throttle'; retry_after_seconds?: number }
  expect: Record<string, any>
  why: string
}

const cases = JSON.parse(readFileSync(new URL('fixtures/otlp/cases.json', import.meta.url), 'utf8')) as Case[]

const authenticators: Readonly<Record<string, Component<'extension'>>> = { bearer_token_auth }

interface Running {
  readonly receiver: Receiver
  readonly http: number
  readonly grpc: http2.ClientHttp2Session
  readonly agent: http.Agent
  readonly batches: SpanBatch[]
  readonly counts: Record<string, number>
  fail?: Case['downstream'] | undefined
  stop(): Promise<void>
}

type Transport = 'own' | 'grpc-js'

async function start(
  transport: Transport,
  { http: overHttp = {}, grpc: overGrpc = {}, extensions = {} }: NonNullable<Case['config']> = {},
): Promise<Running> {
  const apis = Object.entries(extensions).map(([type, options]) => [type, configure(authenticators[type]!, options).api])
  const context = testContext({ id: 'otlp', kind: 'receiver', extensions: Object.fromEntries(apis) })
  const protocols = { grpc: { endpoint: 'localhost:0', transport, ...overGrpc }, http: { endpoint: 'localhost:0', ...overHttp } }
  const receiver = configure(otlp, { protocols }, context)
  const batches: SpanBatch[] = []
  const next = async (items: readonly SpanBatch[]) => {
    const fail = running.fail
    if (fail?.fail === 'retryable') throw new Error('the store is away')
    if (fail?.fail === 'permanent') throw new Permanent('never')
    if (fail?.fail === 'throttle') throw new Refused('too much', fail.retry_after_seconds! * 1_000)
    batches.push(...items.map(detached))
  }
  await receiver.start({ traces: next, logs: next })
  const port = (server: string) =>
    Number(String(context.lines.find(({ text }) => text === `info Starting ${server} server`)!.fields!.endpoint).split(':')[1])
  const session = http2.connect(`http://127.0.0.1:${port('GRPC')}`)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const running: Running = {
    receiver,
    http: port('HTTP'),
    grpc: session,
    agent,
    batches,
    counts: context.counts,
    async stop() {
      agent.destroy()
      session.close()
      await receiver.shutdown!()
    },
  }
  return running
}

/** Shared by all cases without settings of their own (R13), in the order of the file. */
const shared = { own: await start('own'), 'grpc-js': await start('grpc-js') }
afterAll(() => Promise.all([shared.own.stop(), shared['grpc-js'].stop()]))

async function run(one: Case, transport: Transport): Promise<string[]> {
  const server = one.config ? await start(transport, one.config) : shared[transport]
  try {
    const found = differences(one.expect, await play(one, server))
    const path = (one.config?.http as { traces_url_path?: string } | undefined)?.traces_url_path ?? '/v1/traces'
    const { token } = (one.config?.extensions?.bearer_token_auth ?? {}) as { token?: string }
    const headers = { ...GOOD.headers, ...(token && { authorization: `Bearer ${token}` }) }
    const after = await sendHttp(server.http, { ...GOOD, path, headers })
    return after.status === 200 ? found : [...found, `the next request is answered ${after.status}`]
  } finally {
    if (one.config) await server.stop()
  }
}

async function play(one: Case, server: Running): Promise<Outcome> {
  const body = await bodyOf(one.body, one.gzip)
  const before = { batches: server.batches.length, rejected: refused(server), rss: process.memoryUsage.rss() }
  server.fail = one.downstream
  const repeat = one.repeat ?? 1
  const answers: Answer[] = []
  const oneMore = async () => void answers.push(await send(one, server, body))
  if (one.concurrency) await Promise.all(Array.from({ length: repeat }, oneMore))
  else for (let i = 0; i < repeat; i++) await oneMore()
  server.fail = undefined
  const batches = server.batches.slice(before.batches)
  const ids = batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => traceId(batch, i) + spanId(batch, i)))
  return {
    answers,
    signal: /logs/i.test(one.path) ? 'logs' : 'traces',
    json: /json/i.test(one.headers['content-type'] ?? ''),
    accepted: ids.length / repeat,
    rejected: (refused(server) - before.rejected) / repeat,
    calls: batches.length / repeat,
    distinct: new Set(ids).size,
    items: ids.length > 100 ? [] : batches.flatMap(itemsOf),
    rssGrowthMib: (process.memoryUsage.rss() - before.rss) / 2 ** 20,
  }
}

const refused = ({ counts }: Running) => (counts.receiver_refused_spans ?? 0) + (counts.receiver_refused_log_records ?? 0)

async function send(one: Case, server: Running, body: Buffer): Promise<Answer> {
  if (one.transport === 'http') return sendHttp(server.http, { ...one, body }, one.same_connection ? server.agent : undefined)
  return sendGrpc(server.grpc, { path: one.path, headers: one.headers, body, compressed: one.gzip === true || one.compressed_flag === 1 })
}

function itemsOf(batch: SpanBatch): Record<string, any>[] {
  const { resourceSpans = [], resourceLogs = [] } = toJson(batch) as Record<string, any[]>
  return [...resourceSpans, ...resourceLogs].flatMap(({ resource, scopeSpans, scopeLogs }) =>
    (scopeSpans ?? scopeLogs).flatMap(({ scope, spans, logRecords }: any) =>
      (spans ?? logRecords).map((item: object) => ({ ...item, resource, scope })),
    ),
  )
}

/** One good span: whatever a case did, the server must still take it. */
const GOOD = {
  method: 'POST',
  headers: { 'content-type': 'application/x-protobuf' },
  body: protobufOf({ resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: '1'.repeat(32), spanId: '1'.repeat(16) }] }] }] }),
}

test('the cases of fixtures/otlp are all there', () => {
  expect(cases).toHaveLength(277)
})

describe('a case of the OTLP specification passes:', () => {
  test.each(cases.map((one) => [one.requirement, one.id, one.why, one] as const))(
    '%s %s: %s',
    async (_requirement, _id, _why, one) => expect(await run(one, 'own')).toEqual([]),
    10_000,
  )
  const overGrpc = cases.filter(({ transport }) => transport === 'grpc')
  test.each(overGrpc.map((one) => [one.requirement, one.id, one] as const))(
    '%s %s on grpc-js',
    async (_requirement, _id, one) => expect(await run(one, 'grpc-js')).toEqual([]),
    10_000,
  )
})
