import { afterEach, describe, expect, test } from 'vitest'

import { readItem } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { Refused, type Receiver } from '../pipeline/component.ts'
import { conforms, configure, testContext } from '../test/conformance.ts'
import scores from './scores.ts'

conforms(scores)

const running: Receiver[] = []
afterEach(async () => {
  for (const receiver of running.splice(0)) await receiver.shutdown!()
})

async function start(options: object = {}, next?: (batches: readonly SpanBatch[]) => Promise<void>) {
  const extensions = {
    token: {
      async authenticate(header: (name: string) => string | undefined) {
        if (header('authorization') !== 'Bearer right')
          throw new (await import('../pipeline/auth.ts')).Unauthenticated('who are you?', 'Bearer')
      },
    },
  }
  const context = testContext({ id: 'scores', kind: 'receiver', extensions })
  const receiver = configure(scores, { endpoint: 'localhost:0', ...options }, context)
  running.push(receiver)
  const batches: SpanBatch[] = []
  await receiver.start({ logs: next ?? (async (items) => void batches.push(...items)) })
  const url = `http://${String(context.lines[0]!.fields!.endpoint)}/v1/scores`
  const post = async (body: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(url, { method: 'POST', headers, body: typeof body === 'string' ? body : JSON.stringify(body) })
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, any> }
  }
  return { post, url, context, records: () => batches.flatMap((b) => Array.from({ length: b.count }, (_, i) => readItem(b, i))) }
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

test('a score of Langfuse becomes an evaluation event in the span it is about', async () => {
  const { post, records, context } = await start()
  const sent = { id: 's1', traceId: TRACE, observationId: SPAN, name: 'correct', value: 0.5, dataType: 'NUMERIC', comment: 'half right' }
  expect(await post({ ...sent, timestamp: '2026-11-29T10:00:00Z' })).toMatchObject({ status: 200, body: { id: 's1' } })
  expect(records()).toMatchObject([
    {
      event_name: 'gen_ai.evaluation.result',
      trace_id: TRACE,
      span_id: SPAN,
      time: BigInt(Date.parse('2026-11-29T10:00:00Z')) * 1_000_000n,
      attributes: {
        'gen_ai.evaluation.name': 'correct',
        'gen_ai.evaluation.score.value': 0.5,
        'gen_ai.evaluation.explanation': 'half right',
        'leyden.score.id': 's1',
        'leyden.score.source': 'environment',
      },
    },
  ])
  expect(context.counts).toMatchObject({ receiver_accepted_log_records: 1, receiver_refused_log_records: 0 })
})

test('a score may be about a rollout, a response, a session or whatever an attribute names', async () => {
  const { post, records } = await start()
  const about = [
    { rolloutId: 'r1', attemptId: 'a2' },
    { responseId: 'chatcmpl-1' },
    { sessionId: 'chat-7' },
    { attributes: { order_id: 42 } },
    { spanId: SPAN },
  ]
  const answer = await post(about.map((target) => ({ name: 'sold', value: true, source: 'ANNOTATION', ...target })))
  expect(answer.status).toBe(200)
  expect(new Set(answer.body.successes.map(({ id }: { id: string }) => id)).size).toBe(5)
  expect(records().map(({ attributes }) => attributes)).toMatchObject([
    { 'leyden.score.rollout_id': 'r1', 'leyden.score.attempt_id': 'a2', 'leyden.score.source': 'human' },
    { 'gen_ai.response.id': 'chatcmpl-1', 'gen_ai.evaluation.score.value': true },
    { 'session.id': 'chat-7' },
    { order_id: '42' },
    { 'leyden.score.span_id': SPAN, 'leyden.score.detached': true },
  ])
})

test('what is sent again without an id is the same score', async () => {
  const { post } = await start()
  const score = { name: 'correct', value: 1, rolloutId: 'r1' }
  expect((await post(score)).body.id).toBe((await post(score)).body.id)
})

test('in a batch each bad score is told, and the others are taken', async () => {
  const { post, records, context } = await start()
  const good = { name: 'correct', value: 1, traceId: TRACE }
  const answer = await post({
    batch: [
      { type: 'score-create', body: good },
      { type: 'score-create', body: { ...good, id: 'x', value: 'good' } },
    ],
  })
  expect(answer.status).toBe(207)
  expect(answer.body.successes).toHaveLength(1)
  expect(answer.body.errors).toEqual([
    { id: 'x', index: 1, status: 400, message: 'value must be a finite number, true or false (got "good")' },
  ])
  expect(records()).toHaveLength(1)
  expect(context.counts).toMatchObject({ receiver_accepted_log_records: 1, receiver_refused_log_records: 1 })
})

describe('is refused, with what would be right:', () => {
  const target = { traceId: TRACE, name: 'correct' }
  test.each<[string, unknown, string]>([
    ['text', { ...target, value: '1' }, 'value must be a finite number'],
    ['null', { ...target, value: null }, 'value must be a finite number'],
    ['no value', target, 'value must be a finite number, true or false (got nothing)'],
    ['NaN as text', { ...target, value: 'NaN' }, 'value must be a finite number'],
    ['a number beyond all reason', { ...target, value: 1e308 }, 'value must be a finite number'],
    ['a number that JSON cannot hold', '{"name":"correct","rolloutId":"r","value":1e999}', 'value must be a finite number'],
    ['NaN', '{"name":"correct","value":NaN}', 'not JSON'],
    ['a category', { ...target, value: 'good', dataType: 'CATEGORICAL' }, 'a label is no reward'],
    ['half a truth', { ...target, value: 0.5, dataType: 'BOOLEAN' }, 'value must be true, false, 1 or 0'],
    ['no name', { traceId: TRACE, value: 1 }, 'name is missing'],
    ['nothing that it is about', { name: 'correct', value: 1 }, 'says not what it is about'],
    ['a trace id that is none', { ...target, traceId: 'xyz', value: 1 }, 'traceId must be 32 hex digits (got "xyz")'],
    ['a time that is none', { ...target, value: 1, timestamp: 'yesterday' }, 'timestamp must be a time'],
    ['an unknown source', { ...target, value: 1, source: 'toString' }, 'source must be one of'],
    ['no object', '7', 'must be an object (got 7)'],
  ])('%s', async (_what, body, message) => {
    const { post, records } = await start()
    const answer = await post(body)
    expect([answer.status, answer.body.message]).toEqual([400, expect.stringContaining(message)])
    expect(records()).toEqual([])
  })
})

test('too much at once is refused: bytes, and scores', async () => {
  const { post } = await start({ max_request_body_size: 200, max_scores: 2 })
  expect((await post({ name: 'x'.repeat(300) })).status).toBe(413)
  expect((await post([1, 2, 3])).status).toBe(413)
})

test('who may not send is told so', async () => {
  const { post } = await start({ auth: { authenticator: 'token' } })
  const score = { name: 'correct', value: 1, traceId: TRACE }
  const refused = await post(score)
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
  expect((await post(score, { authorization: 'Bearer right' })).status).toBe(200)
})

test('while storage is away, clients are told when to come back', async () => {
  const { post } = await start({}, async () => {
    throw new Refused('ClickHouse is away', 3_000)
  })
  const answer = await post({ name: 'correct', value: 1, traceId: TRACE })
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '3'])
})

test('other paths and methods are not taken', async () => {
  const { url } = await start()
  expect((await fetch(url)).status).toBe(405)
  expect((await fetch(url.replace('scores', 'score'), { method: 'POST' })).status).toBe(404)
})
