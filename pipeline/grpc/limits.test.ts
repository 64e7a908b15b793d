// Clients that want too much, or too slowly. Each must cost no more than its own calls or connection.

import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

import { describe, expect, test } from 'vitest'

import { serve } from '../../test/grpc.ts'
import { data, HELLO, prefixed, rawClient, request, requestBlock, type RawClient } from '../../test/raw_h2.ts'
import { CODE, FLAG, frame, rstStream, SETTING, settingsFrame, TYPE, windowUpdate } from './frames.ts'
import { STATUS } from './grpc.ts'

const HELLO_MESSAGE = prefixed('hello')
const nothing = Buffer.alloc(0)
const MB = 1 << 20
const UNAVAILABLE = 14

const status = async (client: RawClient, id: number) => Number((await client.answer(id)).fields['grpc-status'])

async function expectServed(port: number): Promise<void> {
  const client = await rawClient(port)
  client.send(request(1), data(1, HELLO_MESSAGE))
  expect(await status(client, 1)).toBe(STATUS.ok)
  client.socket.destroy()
}

const short = async (message: Buffer) => message.subarray(0, 5)

/** A method that waits for the test. */
function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  let waiting = 0
  const method = async (message: Buffer) => {
    waiting++
    await opened
    return short(message)
  }
  return { open, method, waiting: () => waiting }
}

test('more streams at once than allowed are refused, so that the client may try again', async () => {
  const { open, method } = gate()
  const { port, limited } = await serve({ maxConcurrentStreams: 2, method })
  const client = await rawClient(port)
  for (const id of [1, 3, 5]) client.send(request(id), data(id, HELLO_MESSAGE))
  expect(await client.answer(5)).toMatchObject({ reset: CODE.refusedStream })
  open()
  expect(await status(client, 1)).toBe(STATUS.ok)
  expect(limited).toEqual({ concurrent_streams: 1 })
})

test('a cancelled call counts until its method has settled', async () => {
  const { open, method } = gate()
  const { port, stats } = await serve({ maxConcurrentStreams: 1, method })
  const client = await rawClient(port)
  client.send(request(1), data(1, HELLO_MESSAGE), rstStream(1, CODE.cancel), request(3), data(3, HELLO_MESSAGE))
  expect(await client.answer(3)).toMatchObject({ reset: CODE.refusedStream })
  open()
  await expect.poll(() => stats().calls).toBe(0)
  client.send(request(5), data(5, HELLO_MESSAGE))
  expect(await status(client, 5)).toBe(STATUS.ok)
})

test('streams reset over and over end the connection', async () => {
  const { port, stats, limited } = await serve()
  const client = await rawClient(port)
  const pair = (id: number) => [request(id), rstStream(id, CODE.cancel)]
  client.send(...Array.from({ length: 10_000 }, (_, i) => pair(2 * i + 1)).flat())
  expect((await client.goAway()).code).toBe(CODE.enhanceYourCalm)
  await client.ended
  expect(stats()).toMatchObject({ calls: 0, bytesInFlight: 0 })
  expect(limited).toEqual({ resets: 1 })
  await expectServed(port)
})

test('streams that we have to reset, over and over, end the connection as well', async () => {
  const { port } = await serve()
  const client = await rawClient(port)
  client.send(...Array.from({ length: 2_000 }, (_, i) => [request(2 * i + 1), windowUpdate(2 * i + 1, 0)]).flat())
  expect((await client.goAway()).code).toBe(CODE.enhanceYourCalm)
})

test.each([
  ['empty data', data(1, nothing, 0)],
  ['settings', settingsFrame([])],
  ['priorities', frame(TYPE.priority, 0, 1, Buffer.alloc(5))],
])('a flood of %s ends the connection', async (_what, idle) => {
  const { port } = await serve()
  const client = await rawClient(port)
  client.send(request(1), ...Array.from({ length: 15_000 }, () => idle))
  expect((await client.goAway()).code).toBe(CODE.enhanceYourCalm)
  await expectServed(port)
})

test.each([
  ['of many small frames', Array.from({ length: 100 }, () => frame(TYPE.continuation, 0, 1, nothing))],
  ['of large frames', Array.from({ length: 5 }, () => frame(TYPE.continuation, 0, 1, Buffer.alloc(16_000)))],
])('a header block %s without end ends the connection', async (_what, continuations) => {
  const { port, limited } = await serve()
  const client = await rawClient(port)
  client.send(request(1, {}, 0), ...continuations)
  expect((await client.goAway()).code).toBe(CODE.enhanceYourCalm)
  expect(limited).toEqual({ header_bytes: 1 })
})

test('headers over the limit refuse the call, and 8 KB pass', async () => {
  const { port } = await serve()
  const client = await rawClient(port)
  client.send(request(1, { 'x-tenant': 't'.repeat(17_000) }), data(1, HELLO_MESSAGE))
  expect(await status(client, 1)).toBe(STATUS.resourceExhausted)
  client.send(request(3, { 'x-tenant': 't'.repeat(8_192) }), data(3, HELLO_MESSAGE))
  expect(await status(client, 3)).toBe(STATUS.ok)
})

test('a field that the table repeats many times is a header list over the limit', async () => {
  const { port } = await serve()
  const client = await rawClient(port)
  const large = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4_000, 'y')]) // x: 4,000 y, remembered
  client.send(frame(TYPE.headers, FLAG.endHeaders, 1, Buffer.concat([requestBlock(), large, Buffer.alloc(10_000, 0xbe)])))
  expect(await status(client, 1)).toBe(STATUS.resourceExhausted)
})

test('a message over the limit is refused before it comes, and the client told to stop', async () => {
  const { port, limited } = await serve({ maxMessageBytes: MB, method: short })
  const client = await rawClient(port)
  client.send(request(1), data(1, Buffer.from([0, 0, 0x10, 0, 1]), 0))
  expect(await client.answer(1)).toMatchObject({ fields: { 'grpc-status': '8' } })
  await client.frame((f) => f.type === TYPE.rstStream && f.id === 1 && f.payload.readUInt32BE() === CODE.noError)
  client.send(data(1, Buffer.alloc(50_000), 0), request(3), ...inFrames(3, prefixed(Buffer.alloc(MB))))
  expect(await status(client, 3)).toBe(STATUS.ok)
  expect(limited).toEqual({ message_bytes: 1 })
})

test('when methods hold half of the memory, clients wait; when it is full, calls are refused; then all goes on', async () => {
  const { open, method, waiting } = gate()
  const { port, stats, limited } = await serve({ maxBytesInFlight: 36 * MB, maxMessageBytes: 8 * MB, method })
  const message = prefixed(Buffer.alloc(6 * MB))
  const granted = (client: RawClient) =>
    client.frames.filter((f) => f.type === TYPE.windowUpdate && f.id === 0).reduce((sum, f) => sum + f.payload.readUInt32BE(), 65_535)
  const [first, second] = [await rawClient(port), await rawClient(port)]
  for (const id of [1, 3, 5, 7]) first.send(request(id), ...inFrames(id, message))
  await expect.poll(waiting).toBe(4)
  for (const id of [1, 3]) second.send(request(id), ...inFrames(id, message))
  expect(await status(second, 3)).toBe(UNAVAILABLE)
  expect(limited).toEqual({ bytes_in_flight: 1 })
  expect(granted(second)).toBe(16 * MB)
  open()
  for (const id of [1, 3, 5, 7]) expect(await status(first, id)).toBe(STATUS.ok)
  expect(await status(second, 1)).toBe(STATUS.ok)
  await expect.poll(() => granted(second)).toBeGreaterThan((16 + 11) * MB)
  expect(stats().bytesInFlight).toBe(0)
})

test('who announces much and sends little takes no memory from others', async () => {
  const { port, stats } = await serve({ maxBytesInFlight: 12 * MB, maxMessageBytes: 4 * MB, method: short })
  const greedy = await rawClient(port)
  const begun = prefixed(Buffer.alloc(4 * MB)).subarray(0, 6)
  for (let id = 1; id < 200; id += 2) greedy.send(request(id), data(id, begun, 0))
  await expect.poll(() => stats().calls).toBe(100)
  const client = await rawClient(port)
  const message = prefixed(Buffer.alloc(MB, 7))
  client.send(request(1), ...inFrames(1, message))
  expect(await status(client, 1)).toBe(STATUS.ok)
})

test('a body that trickles is cut off, and one that is slow but sure is not', async () => {
  const { port, stats, limited } = await serve({ bodyTimeoutMs: 300, method: short })
  const [slow, sure, silent] = [await rawClient(port), await rawClient(port), await rawClient(port)]
  slow.send(request(1), data(1, prefixed(Buffer.alloc(1_000)).subarray(0, 20), 0))
  silent.send(request(1))
  sure.send(request(1), data(1, prefixed(Buffer.alloc(100_000)).subarray(0, 50_000), 0))
  expect(await status(slow, 1)).toBe(STATUS.deadlineExceeded)
  expect(await status(silent, 1)).toBe(STATUS.deadlineExceeded)
  expect(stats()).toMatchObject({ calls: 1 })
  expect(limited).toEqual({ body_timeout: 2 })
  sure.send(data(1, Buffer.alloc(50_005)))
  expect(await status(sure, 1)).toBe(STATUS.ok)
})

test('a connection that says nothing, or not enough, is closed', async () => {
  const { port, stats, limited } = await serve({ stallTimeoutMs: 200 })
  const clients = [await rawClient(port, nothing), await rawClient(port, HELLO.subarray(0, 10))]
  await Promise.all(clients.map(({ ended }) => ended))
  await expect.poll(stats).toMatchObject({ connections: 0 })
  expect(limited).toEqual({ silent_connections: 2 })
})

test('a client that never opens its window loses its call, and nobody else', async () => {
  const { port, stats, limited } = await serve({ stallTimeoutMs: 200, maxConnectionIdleMs: 60_000 })
  const client = await rawClient(port, Buffer.concat([HELLO, settingsFrame([[SETTING.initialWindowSize, 3]])]))
  client.send(request(1), data(1, HELLO_MESSAGE), request(3), data(3, HELLO_MESSAGE), windowUpdate(3, 7))
  expect((await client.answer(3)).data).toEqual(HELLO_MESSAGE)
  expect(await client.answer(1)).toMatchObject({ reset: CODE.cancel, data: HELLO_MESSAGE.subarray(0, 3) })
  expect(stats()).toMatchObject({ calls: 0, bytesInFlight: 0 })
  expect(limited).toEqual({ answers_unread: 1 })
})

test('answers follow the windows that the client opens, and its frame size', async () => {
  const { port } = await serve({ method: async () => Buffer.alloc(200_000, 1) })
  const client = await rawClient(port)
  client.send(request(1), data(1, HELLO_MESSAGE), request(3), data(3, HELLO_MESSAGE))
  const sent = () => client.frames.filter((f) => f.type === TYPE.data).reduce((sum, f) => sum + f.payload.length, 0)
  await expect.poll(sent).toBe(65_535)
  client.send(windowUpdate(1, 200_000))
  client.send(windowUpdate(0, 500_000))
  expect((await client.answer(1)).data).toHaveLength(200_005)
  await expect.poll(sent).toBe(200_005 + 65_535)
  client.send(settingsFrame([[SETTING.initialWindowSize, 200_005]]))
  expect((await client.answer(3)).data).toHaveLength(200_005)
  expect(Math.max(...client.frames.filter((f) => f.type === TYPE.data).map((f) => f.payload.length))).toBe(16_384)
})

test('a client that does not read is closed, and what it is owed stays bounded', async () => {
  const { port, stats, limited } = await serve({ stallTimeoutMs: 400 })
  const socket = connect(port, '127.0.0.1').pause()
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(HELLO)
  const pings = Buffer.concat(Array.from({ length: 10_000 }, () => frame(TYPE.ping, 0, 0, Buffer.alloc(8))))
  const before = process.memoryUsage().rss
  // Until neither side's buffers take any more: then we no longer read.
  for (let i = 0; i < 500 && stats().connections !== 0 && socket.writableLength < 8 * MB; i++) {
    socket.write(pings)
    await sleep(1)
  }
  await expect.poll(stats, { timeout: 5_000 }).toMatchObject({ connections: 0 })
  expect(limited).toEqual({ answers_unread: 1 })
  expect(process.memoryUsage().rss - before).toBeLessThan(100 * MB)
  socket.destroy()
  await expectServed(port)
})

describe('connections end', () => {
  test('when they are idle', async () => {
    const client = await rawClient((await serve({ maxConnectionIdleMs: 100 })).port)
    expect((await client.goAway()).code).toBe(CODE.noError)
    client.send(frame(TYPE.ping, FLAG.ack, 0, (await client.frame(({ type }) => type === TYPE.ping)).payload))
    await client.ended
  })

  test('when they are old, after their calls were answered', async () => {
    const { open, method } = gate()
    const client = await rawClient((await serve({ maxConnectionAgeMs: 100, method })).port)
    client.send(request(1), data(1, HELLO_MESSAGE))
    expect((await client.goAway()).code).toBe(CODE.noError)
    client.send(frame(TYPE.ping, FLAG.ack, 0, (await client.frame(({ type }) => type === TYPE.ping)).payload))
    open()
    expect(await status(client, 1)).toBe(STATUS.ok)
    await client.ended
  })

  test('when they are old and their grace has passed', async () => {
    const { open, method } = gate()
    const client = await rawClient((await serve({ maxConnectionAgeMs: 100, maxConnectionAgeGraceMs: 100, method })).port)
    client.send(request(1), data(1, HELLO_MESSAGE))
    await client.ended
    open()
  })

  test('when a ping is not answered', async () => {
    const { port, stats, limited } = await serve({ keepaliveTimeMs: 100, keepaliveTimeoutMs: 300 })
    const [dead, alive] = [await rawClient(port), await rawClient(port)]
    const answering = setInterval(() => alive.send(frame(TYPE.ping, FLAG.ack, 0, Buffer.from('alive...'))), 50)
    await dead.frame(({ type }) => type === TYPE.ping)
    await dead.ended
    clearInterval(answering)
    await expect.poll(stats).toMatchObject({ connections: 1 })
    expect(limited).toEqual({ keepalive_timeout: 1 })
  })

  test('when there are too many of them', async () => {
    const { port, stats, limited } = await serve({ maxConnections: 2 })
    const clients = [await rawClient(port), await rawClient(port)]
    await clients[1]!.frame(({ type }) => type === TYPE.settings)
    await (
      await rawClient(port)
    ).ended
    expect(stats()).toMatchObject({ connections: 2 })
    expect(limited).toEqual({ connections: 1 })
    clients[0]!.socket.destroy()
    await expect.poll(() => stats().connections).toBe(1)
    await expectServed(port)
  })
})

function inFrames(id: number, message: Buffer): Buffer[] {
  const pieces = Array.from({ length: Math.ceil(message.length / MB) }, (_, i) => message.subarray(i * MB, (i + 1) * MB))
  return pieces.map((piece, i) => data(id, piece, i === pieces.length - 1 ? FLAG.endStream : 0))
}
