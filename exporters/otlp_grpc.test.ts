import { status, type ServiceError } from '@grpc/grpc-js'
import { expect, test } from 'vitest'

import { exportResponse, rpcStatus } from '../data/otlp_answer.ts'
import { readItem } from '../data/scan.ts'
import { Permanent, Refused } from '../pipeline/component.ts'
import { conforms, logBatch, problems, spanBatch } from '../test/conformance.ts'
import { grpcPeer, leydenPeer, mutualTls, sendingBy, statusDetails } from '../test/otlp_peer.ts'
import otlpGrpc from './otlp_grpc.ts'

conforms(otlpGrpc, { endpoint: 'localhost:4317' })

const PLAIN = { tls: { insecure: true } }

test.each(['gzip', 'none'])('spans and log records reach another Leyden as they came: compression %s', async (compression) => {
  const { grpc, batches } = await leydenPeer()
  const spans = await sendingBy(otlpGrpc, { endpoint: grpc, compression, ...PLAIN })
  await spans.send([spanBatch()])
  const logs = await sendingBy(otlpGrpc, { endpoint: `http://${grpc}`, compression }, 'logs')
  await logs.send([logBatch()])
  expect(batches.map(({ signal, body }) => [signal, body.equals((signal === 'traces' ? spanBatch() : logBatch()).body)])).toEqual([
    ['traces', true],
    ['logs', true],
  ])
})

test('a batch is the requests behind each other: nothing is decoded, nothing is lost', async () => {
  const { grpc, batches } = await leydenPeer()
  const { send } = await sendingBy(otlpGrpc, { endpoint: grpc, ...PLAIN, sending_queue: { batch: { min_size: 3, flush_timeout: '1h' } } })
  await Promise.all([send([spanBatch([{ id: 'a' }])]), send([spanBatch([{ id: 'b' }, { id: 'c' }])])])
  expect(batches.map((batch) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i)))).toEqual([
    [expect.objectContaining({ name: 'a' }), expect.objectContaining({ name: 'b' }), expect.objectContaining({ name: 'c' })],
  ])
})

test('a peer that cannot take it now is asked again', async () => {
  let times = 0
  const { grpc } = await leydenPeer(async () => {
    if (++times < 3) throw new Refused('busy', 1)
  })
  const { send, context } = await sendingBy(otlpGrpc, { endpoint: grpc, ...PLAIN })
  await send([spanBatch()])
  expect([times, context.counts]).toEqual([3, { exporter_sent_spans: 2 }])
})

test('the delay that the peer asks for is kept to', async () => {
  const { grpc } = await leydenPeer(() => Promise.reject(new Refused('busy', 60_000)))
  const { send } = await sendingBy(otlpGrpc, { endpoint: grpc, ...PLAIN, retry_on_failure: { max_elapsed_time: '30s' } })
  await expect(send([spanBatch()])).rejects.toMatchObject({
    message: 'no more retries left: UNAVAILABLE: busy',
    retryAfterMs: 60_000,
  })
})

test('headers go along', async () => {
  const seen: unknown[] = []
  const endpoint = await grpcPeer(({ metadata }, callback) => {
    seen.push(metadata.get('x-team'))
    callback(null, Buffer.alloc(0))
  })
  const { send } = await sendingBy(otlpGrpc, { endpoint, headers: { 'X-Team': 'agents' }, ...PLAIN })
  await send([spanBatch()])
  expect(seen).toEqual([['agents']])
})

const info = rpcStatus({ code: 8, message: '', retryAfterMs: 1 }, 'protobuf')
test.each<[string, Partial<ServiceError>, boolean]>([
  ['CANCELLED', { code: status.CANCELLED }, true],
  ['DEADLINE_EXCEEDED', { code: status.DEADLINE_EXCEEDED }, true],
  ['ABORTED', { code: status.ABORTED }, true],
  ['OUT_OF_RANGE', { code: status.OUT_OF_RANGE }, true],
  ['UNAVAILABLE', { code: status.UNAVAILABLE }, true],
  ['DATA_LOSS', { code: status.DATA_LOSS }, true],
  ['RESOURCE_EXHAUSTED with a delay', { code: status.RESOURCE_EXHAUSTED, metadata: statusDetails(info) }, true],
  ['RESOURCE_EXHAUSTED', { code: status.RESOURCE_EXHAUSTED }, false],
  ['INVALID_ARGUMENT', { code: status.INVALID_ARGUMENT }, false],
  ['UNAUTHENTICATED', { code: status.UNAUTHENTICATED }, false],
  ['INTERNAL', { code: status.INTERNAL }, false],
])('%s: whether it is tried again', async (_name, error, again) => {
  let times = 0
  const endpoint = await grpcPeer((_call, callback) => callback(++times === 1 ? { ...error, details: 'no' } : null, Buffer.alloc(0)))
  const { send } = await sendingBy(otlpGrpc, { endpoint, ...PLAIN })
  const sent = send([spanBatch()])
  if (again) await sent
  else await expect(sent).rejects.toThrow(new Permanent(`${status[error.code!]}: no`))
  expect(times).toBe(again ? 2 : 1)
})

test('partial success is said, counted, and not sent again', async () => {
  let times = 0
  const answer = exportResponse('traces', [{ reason: 'span 1: too old' }], 'protobuf')
  const endpoint = await grpcPeer((_call, callback) => callback(null, ++times ? answer : null))
  const { send, context } = await sendingBy(otlpGrpc, { endpoint, ...PLAIN })
  await send([spanBatch()])
  expect([times, context.counts]).toEqual([1, { leyden_exporter_rejected_spans: 1, exporter_sent_spans: 2 }])
  expect(context.lines).toContainEqual({
    text: 'warn Partial success: the server did not take everything',
    fields: { message: 'span 1: too old', rejected: 1 },
  })
})

test('a peer that does not answer is given up after the timeout, and asked again', async () => {
  let times = 0
  const endpoint = await grpcPeer((_call, callback) => void (++times > 1 && callback(null, Buffer.alloc(0))))
  const { send } = await sendingBy(otlpGrpc, { endpoint, timeout: '100ms', ...PLAIN })
  await send([spanBatch()])
  expect(times).toBe(2)
})

test('a peer that is not there refuses, and the health says why', async () => {
  const { send, context } = await sendingBy(otlpGrpc, { endpoint: 'localhost:1', ...PLAIN, retry_on_failure: { enabled: false } })
  await expect(send([spanBatch()])).rejects.toThrow(Refused)
  expect(context.problem()).toMatch(/^UNAVAILABLE: /)
})

test('TLS goes both ways: the server shows its certificate, and we ours', async () => {
  const { server, client } = await mutualTls()
  const endpoint = await grpcPeer((_call, callback) => callback(null, Buffer.alloc(0)), server)
  await (await sendingBy(otlpGrpc, { endpoint, tls: client })).send([spanBatch()])
  await (await sendingBy(otlpGrpc, { endpoint, tls: { ...client, server_name_override: 'localhost' } })).send([spanBatch()])
  const { cert_file: _, key_file: __, ...stranger } = client
  for (const tls of [stranger, {}, { ...client, server_name_override: 'elsewhere' }]) {
    const { send } = await sendingBy(otlpGrpc, { endpoint, tls, retry_on_failure: { enabled: false } })
    await expect(send([spanBatch()])).rejects.toThrow(Refused)
  }
})

test.each([
  [{}, /needs "endpoint"/],
  [{ endpoint: '' }, /must be host:port/],
  [{ endpoint: 'collector' }, /must be host:port, e\.g\. collector:4317 \(got "collector"\)/],
  [{ endpoint: 'http://collector:4318/v1/traces' }, /must be host:port/],
  [{ endpoint: 'collector:4317', tls: { cert_file: 'a.pem' } }, /needs cert_file and key_file together/],
  [{ endpoint: 'collector:4317', compression: 'snappy' }, /must be one of gzip, none/],
])('the options %j are refused', (options, problem) => {
  expect(problems(otlpGrpc, options)).toEqual([expect.stringMatching(problem)])
})

test.each(['collector:4317', '[::1]:4317', 'https://collector:4317/', 'dns:///collector:4317', 'unix:/run/otlp.sock'])(
  'the endpoint %s is taken',
  (endpoint) => {
    expect(problems(otlpGrpc, { endpoint })).toEqual([])
  },
)
