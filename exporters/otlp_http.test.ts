import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'

import { expect, test } from 'vitest'

import { exportResponse, rpcStatus } from '../data/otlp_answer.ts'
import { Permanent, Refused } from '../pipeline/component.ts'
import { conforms, logBatch, problems, spanBatch } from '../test/conformance.ts'
import { httpPeer, leydenPeer, mutualTls, sendingBy } from '../test/otlp_peer.ts'
import otlpHttp from './otlp_http.ts'

conforms(otlpHttp, { endpoint: 'http://localhost:4318' })

const PROTOBUF = { 'content-type': 'application/x-protobuf' }

/** Answers like this the first time, and 200 from then on. */
function firstly(status: number, headers: object = {}, body?: Buffer) {
  let times = 0
  return (_request: IncomingMessage, response: ServerResponse) => {
    if (times++ === 0) response.writeHead(status, { ...headers }).end(body)
    else response.writeHead(200, PROTOBUF).end()
  }
}

test.each(['gzip', 'none'])('spans and log records reach another Leyden as they came: compression %s', async (compression) => {
  const { http, batches } = await leydenPeer()
  const spans = await sendingBy(otlpHttp, { endpoint: http, compression })
  await spans.send([spanBatch()])
  const logs = await sendingBy(otlpHttp, { endpoint: `${http}/`, compression }, 'logs')
  await logs.send([logBatch()])
  expect(batches.map(({ signal, body }) => [signal, body.equals((signal === 'traces' ? spanBatch() : logBatch()).body)])).toEqual([
    ['traces', true],
    ['logs', true],
  ])
})

test('a batch is the requests behind each other', async () => {
  const { http, batches } = await leydenPeer()
  const { send } = await sendingBy(otlpHttp, { endpoint: http, sending_queue: { batch: { min_size: 2, flush_timeout: '1h' } } })
  await Promise.all([send([spanBatch([{ id: 'a' }])]), send([spanBatch([{ id: 'b' }])])])
  expect(batches.map(({ count }) => count)).toEqual([2])
})

test('each signal may have a URL of its own, and headers go along', async () => {
  const seen: unknown[] = []
  const { url, asked } = await httpPeer((request, response) => {
    seen.push(request.headers['x-team'])
    response.writeHead(200, PROTOBUF).end()
  })
  const options = { endpoint: `${url}/otlp`, logs_endpoint: `${url}/collect?kind=logs`, headers: { 'X-Team': 'agents' } }
  await (await sendingBy(otlpHttp, options)).send([spanBatch()])
  await (await sendingBy(otlpHttp, options, 'logs')).send([logBatch()])
  expect([asked, seen]).toEqual([
    ['/otlp/v1/traces', '/collect?kind=logs'],
    ['agents', 'agents'],
  ])
})

test('a signal without a URL is refused for good', async () => {
  const { send } = await sendingBy(otlpHttp, { traces_endpoint: 'http://localhost:1/v1/traces' }, 'logs')
  await expect(send([logBatch()])).rejects.toThrow(new Permanent('either endpoint or logs_endpoint must be specified'))
})

test.each([
  [429, true],
  [502, true],
  [503, true],
  [504, true],
  [400, false],
  [401, false],
  [404, false],
  [413, false],
  [500, false],
  [501, false],
])('%d: tried again is %s', async (status, again) => {
  const { url, asked } = await httpPeer(firstly(status, { 'content-type': 'text/plain' }, Buffer.from('no\n')))
  const { send } = await sendingBy(otlpHttp, { endpoint: url })
  const sent = send([spanBatch()])
  if (again) await sent
  else await expect(sent).rejects.toThrow(new Permanent(`${url}/v1/traces answered ${status}: no`))
  expect(asked).toHaveLength(again ? 2 : 1)
})

test('what a refusal says is passed on', async () => {
  const said = rpcStatus({ code: 3, message: 'span 1: no trace id' }, 'protobuf')
  const { url } = await httpPeer(firstly(400, PROTOBUF, said))
  const { send } = await sendingBy(otlpHttp, { endpoint: url })
  await expect(send([spanBatch()])).rejects.toThrow('answered 400: span 1: no trace id')
})

test.each([
  ['60', 60_000],
  [new Date(Date.now() + 60_000).toUTCString(), 30_000],
])('Retry-After: %s is kept to', async (header, atLeast) => {
  const { url } = await httpPeer(firstly(503, { 'retry-after': header }))
  const { send } = await sendingBy(otlpHttp, { endpoint: url, retry_on_failure: { max_elapsed_time: '30s' } })
  const error = await send([spanBatch()]).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(Refused)
  expect((error as Refused).retryAfterMs).toBeGreaterThanOrEqual(atLeast)
})

test('partial success is said, counted, and not sent again', async () => {
  const { url, asked } = await httpPeer(firstly(200, PROTOBUF, exportResponse('traces', [{ reason: 'span 1: too old' }], 'protobuf')))
  const { send, context } = await sendingBy(otlpHttp, { endpoint: url })
  await send([spanBatch()])
  expect([asked.length, context.counts]).toEqual([1, { leyden_exporter_rejected_spans: 1, exporter_sent_spans: 2 }])
  expect(context.lines).toContainEqual({
    text: 'warn Partial success: the server did not take everything',
    fields: { message: 'span 1: too old', rejected: 1 },
  })
})

test('an answer of success that nobody can read is a success', async () => {
  const { url, asked } = await httpPeer(firstly(200, PROTOBUF, Buffer.from([0xff])))
  const { send } = await sendingBy(otlpHttp, { endpoint: url })
  await send([spanBatch()])
  expect(asked).toHaveLength(1)
})

test('a server that does not answer, or hangs up, is asked again', async () => {
  let times = 0
  const { url } = await httpPeer((request, response) => {
    times++
    if (times === 2) request.socket.destroy()
    else if (times === 3) response.writeHead(200).end()
  })
  const { send } = await sendingBy(otlpHttp, { endpoint: url, timeout: '100ms' })
  await send([spanBatch()])
  expect(times).toBe(3)
})

test('a server that answers before it has read the request is sent no more of it', async () => {
  const received: Buffer[] = []
  let readOn = () => {}
  const closed = new Promise<void>((resolve) => {
    const server = createServer((socket) => {
      socket.once('data', () => {
        socket.pause().write('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n')
        readOn = () => socket.on('data', (chunk: Buffer) => received.push(chunk)).resume()
      })
      socket.on('error', () => {}).on('close', () => resolve(void server.close()))
    })
    server.listen(0, '127.0.0.1', async () => {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const { send } = await sendingBy(otlpHttp, { endpoint: url, compression: 'none' })
      const batch = spanBatch([{ id: 'a', attributes: { big: 'x'.repeat(20_000_000) } }])
      await expect(send([batch])).rejects.toThrow(Permanent)
      batch.body.fill(0xee)
      readOn()
    })
  })
  await closed
  expect(received.some((chunk) => chunk.includes(0xee))).toBe(false)
})

test('a server that is not there refuses, and the health says why', async () => {
  const { send, context } = await sendingBy(otlpHttp, { endpoint: 'http://localhost:1', retry_on_failure: { enabled: false } })
  await expect(send([spanBatch()])).rejects.toThrow(Refused)
  expect(context.problem()).toMatch(/ECONNREFUSED/)
})

test('TLS goes both ways: the server shows its certificate, and we ours', async () => {
  const { server, client } = await mutualTls()
  const { url } = await httpPeer(firstly(200, PROTOBUF), server)
  await (await sendingBy(otlpHttp, { endpoint: url, tls: client })).send([spanBatch()])
  const { cert_file: _, key_file: __, ...stranger } = client
  for (const tls of [stranger, {}, { ...client, server_name_override: 'elsewhere' }]) {
    const { send } = await sendingBy(otlpHttp, { endpoint: url, tls, retry_on_failure: { enabled: false } })
    await expect(send([spanBatch()])).rejects.toThrow(Refused)
  }
})

test('a certificate that cannot be read stops the start', async () => {
  await expect(sendingBy(otlpHttp, { endpoint: 'https://a', tls: { ca_file: '/nowhere.pem' } })).rejects.toThrow(
    /^tls: ca_file cannot be read: ENOENT/,
  )
})

test.each([
  [{}, 'at least one endpoint must be specified'],
  [{ endpoint: 'collector:4318' }, 'must be a URL, e.g. http://collector:4318 (got "collector:4318")'],
  [{ endpoint: 'http://a', traces_endpoint: 'nowhere' }, 'must be a URL, e.g. http://collector:4318 (got "nowhere")'],
  [{ endpoint: 'http://a', tls: { key_file: 'a.pem' } }, 'needs cert_file and key_file together'],
])('the options %j are refused', (options, problem) => {
  expect(problems(otlpHttp, options)).toEqual([expect.stringContaining(problem)])
})
