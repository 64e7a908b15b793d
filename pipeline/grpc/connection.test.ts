import { setTimeout as sleep } from 'node:timers/promises'

import { expect, test } from 'vitest'

import { serve } from '../../test/grpc.ts'
import { data, HELLO, prefixed, rawClient, request, requestBlock } from '../../test/raw_h2.ts'
import { CODE, FLAG, frame, MAX_WINDOW, rstStream, SETTING, settingsFrame, TYPE, windowUpdate } from './frames.ts'
import { encodeField } from './hpack.ts'
import { PREFACE } from './preface.ts'

const HELLO_MESSAGE = prefixed('hello')
const nothing = Buffer.alloc(0)

test('a call is a request, a message with its prefix, and an answer of the same kind', async () => {
  const client = await rawClient((await serve()).port)
  client.send(request(1), data(1, HELLO_MESSAGE))
  expect(await client.answer(1)).toEqual({
    fields: { ':status': '200', 'content-type': 'application/grpc', 'grpc-status': '0' },
    data: HELLO_MESSAGE,
  })
})

test('settings are acknowledged and announce the limits, pings are answered', async () => {
  const { port } = await serve({ maxConcurrentStreams: 7, maxMessageBytes: 1 << 20, maxHeaderBytes: 9_000 })
  const client = await rawClient(port)
  client.send(frame(TYPE.ping, 0, 0, Buffer.from('12345678')))
  const pong = await client.frame(({ type }) => type === TYPE.ping)
  expect(pong).toMatchObject({ flags: FLAG.ack, payload: Buffer.from('12345678') })
  await client.frame(({ type, flags }) => type === TYPE.settings && flags === FLAG.ack)
  const { payload } = client.frames[0]!
  const settings = Array.from({ length: payload.length / 6 }, (_, i) => [payload.readUInt16BE(6 * i), payload.readUInt32BE(6 * i + 2)])
  expect(Object.fromEntries(settings)).toMatchObject({
    [SETTING.maxConcurrentStreams]: 7,
    [SETTING.initialWindowSize]: (1 << 20) + 5,
    [SETTING.maxHeaderListSize]: 9_000,
  })
})

const block = requestBlock()
const padded = (pad: number, content: Buffer) => Buffer.concat([Buffer.from([pad]), content, Buffer.alloc(pad)])
const priority = Buffer.from([0, 0, 0, 0, 16])
test.each([
  ['a message in many frames', [request(1), ...[...HELLO_MESSAGE].map((byte) => data(1, Buffer.from([byte]), 0)), data(1, nothing)]],
  ['empty frames among them', [request(1), data(1, nothing, 0), data(1, HELLO_MESSAGE, 0), data(1, nothing, 0), data(1, nothing)]],
  ['padded data', [request(1), data(1, padded(200, HELLO_MESSAGE), FLAG.padded | FLAG.endStream)]],
  ['nothing but padding', [request(1), data(1, padded(9, nothing), FLAG.padded), data(1, HELLO_MESSAGE)]],
  ['padded headers', [frame(TYPE.headers, FLAG.endHeaders | FLAG.padded, 1, padded(30, block)), data(1, HELLO_MESSAGE)]],
  [
    'headers with a priority',
    [frame(TYPE.headers, FLAG.endHeaders | FLAG.priority, 1, Buffer.concat([priority, block])), data(1, HELLO_MESSAGE)],
  ],
  [
    'headers in pieces',
    [
      frame(TYPE.headers, 0, 1, block.subarray(0, 3)),
      frame(TYPE.continuation, 0, 1, nothing),
      frame(TYPE.continuation, FLAG.endHeaders, 1, block.subarray(3)),
      data(1, HELLO_MESSAGE),
    ],
  ],
  ['a priority by itself', [frame(TYPE.priority, 0, 1, priority), request(1), data(1, HELLO_MESSAGE)]],
  ['frames that nobody knows', [frame(0x21, 255, 77, HELLO_MESSAGE), request(1), frame(0xfe, 0, 1, nothing), data(1, HELLO_MESSAGE)]],
  ['trailers', [request(1), data(1, HELLO_MESSAGE, 0), frame(TYPE.headers, FLAG.endHeaders | FLAG.endStream, 1, nothing)]],
  ['GOAWAY before its answer', [request(1), frame(TYPE.goAway, 0, 0, Buffer.alloc(8)), data(1, HELLO_MESSAGE)]],
  ['no te header, a content-length', [request(1, { 'content-length': '10' }), data(1, HELLO_MESSAGE)]],
])('%s is a legal way to call', async (_what, frames) => {
  const client = await rawClient((await serve()).port)
  client.send(...frames)
  expect(await client.answer(1)).toMatchObject({ fields: { 'grpc-status': '0' }, data: HELLO_MESSAGE })
})

const headers = (...fields: Buffer[]) => frame(TYPE.headers, FLAG.endHeaders, 1, Buffer.concat(fields))
const setting = (key: number, value: number) => settingsFrame([[key, value]])
const call = Buffer.concat([request(1), data(1, HELLO_MESSAGE)])
test.each<[string, Buffer[], number]>([
  ['data before settings', [PREFACE, data(1, HELLO_MESSAGE)], CODE.protocolError],
  ['a ping before settings', [PREFACE, frame(TYPE.ping, 0, 0, Buffer.alloc(8))], CODE.protocolError],
  ['another preface', [Buffer.from('hello, is it me?')], CODE.protocolError],
  ['TLS to a plain port', [Buffer.from('160301020001', 'hex')], CODE.protocolError],
  ['data on stream 0', [HELLO, data(0, HELLO_MESSAGE)], CODE.protocolError],
  ['data on a stream that is not open', [HELLO, data(1, HELLO_MESSAGE)], CODE.protocolError],
  ['data on a stream of ours', [HELLO, call, data(2, HELLO_MESSAGE)], CODE.protocolError],
  ['headers on stream 0', [HELLO, request(0)], CODE.protocolError],
  ['headers on a stream of ours', [HELLO, request(2)], CODE.protocolError],
  ['a stream opened twice', [HELLO, call, call], CODE.streamClosed],
  ['a stream below the last', [HELLO, request(5), request(3)], CODE.streamClosed],
  ['a header block interrupted by data', [HELLO, request(1), request(3, {}, 0), data(1, HELLO_MESSAGE)], CODE.protocolError],
  ['a header block interrupted by a ping', [HELLO, request(1, {}, 0), frame(TYPE.ping, 0, 0, Buffer.alloc(8))], CODE.protocolError],
  ['a header block interrupted by an extension', [HELLO, request(1, {}, 0), frame(0x21, 0, 1, nothing)], CODE.protocolError],
  ['a header block continued by another', [HELLO, request(1, {}, 0), frame(TYPE.continuation, 4, 3, nothing)], CODE.protocolError],
  ['a continuation of nothing', [HELLO, frame(TYPE.continuation, 4, 1, block)], CODE.protocolError],
  ['headers of nonsense', [HELLO, frame(TYPE.headers, FLAG.endHeaders, 1, Buffer.from([0xff]))], CODE.compressionError],
  ['headers shorter than their priority', [HELLO, frame(TYPE.headers, 36, 1, Buffer.alloc(3))], CODE.frameSizeError],
  ['headers with more padding than frame', [HELLO, frame(TYPE.headers, 12, 1, Buffer.from([3, 0]))], CODE.protocolError],
  ['data with more padding than frame', [HELLO, request(1), data(1, Buffer.from([2, 0]), FLAG.padded)], CODE.protocolError],
  ['padded data without a length', [HELLO, request(1), data(1, nothing, FLAG.padded)], CODE.frameSizeError],
  ['a frame larger than allowed', [HELLO, Buffer.from('200001000000000001', 'hex')], CODE.frameSizeError],
  ['settings cut short', [HELLO, frame(TYPE.settings, 0, 0, Buffer.alloc(5))], CODE.frameSizeError],
  ['an acknowledgement that says something', [HELLO, frame(TYPE.settings, FLAG.ack, 0, Buffer.alloc(6))], CODE.frameSizeError],
  ['settings of a stream', [HELLO, frame(TYPE.settings, 0, 1, nothing)], CODE.protocolError],
  ['a window that is too large', [HELLO, setting(SETTING.initialWindowSize, MAX_WINDOW + 1)], CODE.flowControlError],
  ['a frame size that is too small', [HELLO, setting(SETTING.maxFrameSize, 16_383)], CODE.protocolError],
  ['a frame size that is too large', [HELLO, setting(SETTING.maxFrameSize, 1 << 24)], CODE.protocolError],
  ['a push setting that is none', [HELLO, setting(SETTING.enablePush, 2)], CODE.protocolError],
  ['a ping of seven bytes', [HELLO, frame(TYPE.ping, 0, 0, Buffer.alloc(7))], CODE.frameSizeError],
  ['a ping on a stream', [HELLO, frame(TYPE.ping, 0, 1, Buffer.alloc(8))], CODE.protocolError],
  ['a window that grows by nothing', [HELLO, windowUpdate(0, 0)], CODE.protocolError],
  ['a window that overflows', [HELLO, windowUpdate(0, MAX_WINDOW)], CODE.flowControlError],
  ['a window of three bytes', [HELLO, frame(TYPE.windowUpdate, 0, 0, Buffer.alloc(3))], CODE.frameSizeError],
  ['a window of a stream that is not open', [HELLO, windowUpdate(1, 1)], CODE.protocolError],
  ['a reset of a stream that is not open', [HELLO, rstStream(1, CODE.cancel)], CODE.protocolError],
  ['a reset of three bytes', [HELLO, request(1), frame(TYPE.rstStream, 0, 1, Buffer.alloc(3))], CODE.frameSizeError],
  ['a priority of four bytes', [HELLO, frame(TYPE.priority, 0, 1, Buffer.alloc(4))], CODE.frameSizeError],
  ['a priority of no stream', [HELLO, frame(TYPE.priority, 0, 0, priority)], CODE.protocolError],
  ['GOAWAY on a stream', [HELLO, frame(TYPE.goAway, 0, 1, Buffer.alloc(8))], CODE.protocolError],
  ['a push', [HELLO, frame(TYPE.pushPromise, 4, 1, Buffer.alloc(4))], CODE.protocolError],
])('%s ends the connection', async (_what, bytes, code) => {
  const { port } = await serve()
  const client = await rawClient(port, Buffer.concat(bytes))
  expect((await client.goAway()).code).toBe(code)
  await client.ended
  const other = await rawClient(port)
  other.send(call)
  expect((await other.answer(1)).fields).toMatchObject({ 'grpc-status': '0' })
})

test.each<[string, Buffer[], number]>([
  ['data after the end', [call, data(1, HELLO_MESSAGE)], CODE.streamClosed],
  ['a window that grows by nothing', [request(1), windowUpdate(1, 0)], CODE.protocolError],
  ['a window that overflows', [request(1), windowUpdate(1, MAX_WINDOW), windowUpdate(1, MAX_WINDOW)], CODE.flowControlError],
  ['trailers that are not the end', [request(1), request(1)], CODE.protocolError],
  ['trailers with a path', [request(1), data(1, HELLO_MESSAGE, 0), request(1, {}, 5)], CODE.protocolError],
  ['a name in capitals', [request(1, { 'X-Name': '1' })], CODE.protocolError],
  ['a value with a line break', [request(1, { 'x-name': 'a\r\nb: c' })], CODE.protocolError],
  ['no method', [request(1, { ':method': undefined })], CODE.protocolError],
  ['no scheme', [request(1, { ':scheme': undefined })], CODE.protocolError],
  ['no path', [request(1, { ':path': undefined })], CODE.protocolError],
  ['an empty path', [request(1, { ':path': '' })], CODE.protocolError],
  ['a pseudo-header after the others', [headers(requestBlock({ ':path': undefined }), encodeField(':path', '/'))], CODE.protocolError],
  ['a pseudo-header twice', [headers(requestBlock(), encodeField(':path', '/'))], CODE.protocolError],
  ['a pseudo-header that is none', [request(1, { ':status': '200' })], CODE.protocolError],
  ['a connection header', [request(1, { connection: 'close' })], CODE.protocolError],
  ['te with more than trailers', [request(1, { te: 'gzip' })], CODE.protocolError],
  ['a content-length that is no number', [request(1, { 'content-length': '1x' })], CODE.protocolError],
  ['a content-length that is not true', [request(1, { 'content-length': '11' }), data(1, HELLO_MESSAGE)], CODE.protocolError],
])('%s ends the stream, and no more', async (_what, frames, code) => {
  const client = await rawClient((await serve({ method: async (message) => (await sleep(20), message) })).port)
  client.send(...frames)
  expect(await client.answer(1)).toMatchObject({ reset: code })
  client.send(request(3), data(3, HELLO_MESSAGE))
  expect((await client.answer(3)).fields).toMatchObject({ 'grpc-status': '0' })
})

test('HTTP/1 gets an answer that its clients can read', async () => {
  const { port } = await serve()
  await expect(fetch(`http://127.0.0.1:${port}/v1/traces`).then((r) => [r.status, r.statusText])).resolves.toEqual([
    505,
    'HTTP Version Not Supported',
  ])
})

test('more data than the window allows ends the connection', async () => {
  const { port } = await serve({ maxBytesInFlight: 5 << 20, maxMessageBytes: 1 << 20, method: () => new Promise(() => {}) })
  const client = await rawClient(port)
  // While methods hold more than half of the memory, no window is given back.
  for (const id of [1, 3, 5]) client.send(request(id), data(id, prefixed(Buffer.alloc(1_000_000))))
  client.send(request(7))
  for (let i = 0; i < 17; i++) client.send(data(7, Buffer.alloc(1_000_000), 0))
  expect((await client.goAway()).code).toBe(CODE.flowControlError)
})

test('when the server closes, calls are taken that were sent before the client knew', async () => {
  const server = await serve()
  const client = await rawClient(server.port)
  client.send(call)
  await client.answer(1)
  const closing = server.close(10_000)
  expect(await client.goAway()).toMatchObject({ lastId: MAX_WINDOW, code: CODE.noError })
  client.send(request(3), data(3, HELLO_MESSAGE))
  expect((await client.answer(3)).fields).toMatchObject({ 'grpc-status': '0' })
  const ping = await client.frame(({ type }) => type === TYPE.ping)
  client.send(request(5), frame(TYPE.ping, FLAG.ack, 0, ping.payload), request(7), data(5, HELLO_MESSAGE))
  const last = await client.frame(({ type, payload }) => type === TYPE.goAway && payload.readUInt32BE() === 5)
  expect(last.payload.readUInt32BE(4)).toBe(CODE.noError)
  expect((await client.answer(5)).fields).toMatchObject({ 'grpc-status': '0' })
  await client.ended
  await closing
})
