// Small requests: a copy of them is offered first, whatever frames they come in.

import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'

import { expect, onTestFinished, test } from 'vitest'

import { ECHO, serve } from '../../test/grpc.ts'
import { data, prefixed, rawClient, request } from '../../test/raw_h2.ts'
import { FLAG, frame, TYPE } from './frames.ts'
import type { Settled } from '../small_requests.ts'

async function offering(takes: (message: Buffer) => boolean, options: Parameters<typeof serve>[0] = {}) {
  const copied: { readonly message: Buffer; readonly settled: Settled }[] = []
  const copy = (bytes: Buffer, start: number, end: number, settled: Settled) => {
    const message = Buffer.from(bytes.subarray(start, end))
    if (!takes(message)) return false
    copied.push({ message, settled })
    return true
  }
  const server = await serve({ copies: new Map([[ECHO, copy]]), ...options })
  const client = await rawClient(server.port)
  onTestFinished(() => void client.socket.destroy())
  return { ...server, ...client, copied }
}

test.each<[string, (id: number, message: Buffer) => Buffer[]]>([
  ['one frame', (id, message) => [data(id, message)]],
  ['one frame and an empty one', (id, message) => [data(id, message, 0), data(id, Buffer.alloc(0))]],
  ['one frame with padding', (id, message) => [frame(TYPE.data, FLAG.endStream | FLAG.padded, id, Buffer.from([2, ...message, 0, 0]))]],
  ['frames that cut its prefix', (id, message) => [data(id, message.subarray(0, 3), 0), data(id, message.subarray(3))]],
  ['a frame for each byte', (id, message) => [...message].map((byte, i) => data(id, Buffer.of(byte), i + 1 === message.length ? 1 : 0))],
])('a method may take a copy of what comes in %s, and answers later', async (_how, framesOf) => {
  const { send, answer, copied, stats } = await offering(() => true)
  for (const [id, text] of [
    [1, 'hello'],
    [3, ''],
    [5, 'again'],
  ] as const)
    send(request(id), ...framesOf(id, prefixed(text)))
  await expect.poll(() => copied.length).toBe(3)
  expect(copied.map(({ message }) => message.toString())).toEqual(['hello', '', 'again'])
  expect(stats().calls).toBe(3)
  copied[2]!.settled(Buffer.from('third'))
  copied[0]!.settled(Buffer.alloc(0))
  copied[1]!.settled(Buffer.alloc(0), new Error('not this one'))
  expect((await answer(5)).data).toEqual(prefixed('third'))
  expect(await answer(1)).toMatchObject({ fields: { ':status': '200', 'grpc-status': '0' }, data: prefixed('') })
  expect((await answer(3)).fields).toMatchObject({ 'grpc-status': '2', 'grpc-message': 'not this one' })
  await expect.poll(stats).toMatchObject({ calls: 0, bytesInFlight: 0 })
})

test('what it takes no copy of goes to the method', async () => {
  const { send, answer, copied } = await offering((message) => message.length < 4)
  send(request(1), data(1, prefixed('long one')), request(3), data(3, prefixed('abc')))
  expect((await answer(1)).data).toEqual(prefixed('long one'))
  expect(copied.map(({ message }) => message.toString())).toEqual(['abc'])
  copied[0]!.settled(Buffer.alloc(0))
  expect((await answer(3)).fields['grpc-status']).toBe('0')
})

test.each([
  ['a wrong content-length', { 'content-length': '9' }, prefixed('abc'), { reset: 1 }],
  ['two messages', {}, Buffer.concat([prefixed('abc'), prefixed('def')]), { fields: { 'grpc-status': '12' } }],
  ['a message cut short', {}, prefixed('abc').subarray(0, 6), { fields: { 'grpc-status': '13' } }],
])('no copy is offered of %s', async (_what, headers, body, refusal) => {
  const { send, answer, copied } = await offering(() => true)
  send(request(1, headers), data(1, body))
  expect(await answer(1)).toMatchObject(refusal)
  expect(copied).toEqual([])
})

test('what is packed, or comes from somebody who is not yet known, goes to the method', async () => {
  const packed = await offering(() => true)
  packed.send(request(1, { 'grpc-encoding': 'gzip' }), data(1, prefixed(gzipSync('abc'), 1)))
  expect((await packed.answer(1)).data).toEqual(prefixed('abc'))
  const asking = await offering(() => true, { authenticate: () => sleep(10) })
  asking.send(request(1), data(1, prefixed('abc')))
  expect((await asking.answer(1)).data).toEqual(prefixed('abc'))
  expect([...packed.copied, ...asking.copied]).toEqual([])
})

test('a method that takes messages without a promise may read them until it answers, at once or later', async () => {
  const held: { readonly message: Buffer; readonly settled: Settled }[] = []
  const taker = (message: Buffer, settled: Settled) => {
    if (message.length < 4) settled(Buffer.from(`at once: ${message.toString()}`))
    else held.push({ message, settled })
  }
  const { send, answer, stats } = await offering(() => false, { takers: new Map([[ECHO, taker]]) })
  for (const [id, text] of [
    [1, 'hello'],
    [3, 'abc'],
    [5, 'again'],
    [7, 'cancelled'],
  ] as const)
    send(request(id), data(id, prefixed(text)))
  expect((await answer(3)).data).toEqual(prefixed('at once: abc'))
  send(frame(TYPE.rstStream, 0, 7, Buffer.from([0, 0, 0, 8])), request(9), data(9, prefixed('def')))
  expect((await answer(9)).data).toEqual(prefixed('at once: def'))
  expect(held.map(({ message }) => message.toString())).toEqual(['hello', 'again', 'cancelled'])
  expect(stats().calls).toBe(3)
  held[2]!.settled(Buffer.alloc(0))
  held[1]!.settled(Buffer.alloc(0), new Error('not this one'))
  held[0]!.settled(Buffer.from('first'))
  expect((await answer(1)).data).toEqual(prefixed('first'))
  expect((await answer(5)).fields).toMatchObject({ 'grpc-status': '2', 'grpc-message': 'not this one' })
  await expect.poll(stats).toMatchObject({ calls: 0, bytesInFlight: 0 })
})

test('a call that was cancelled is not answered, and those after it are each their own', async () => {
  const { send, answer, frames, copied, stats } = await offering(() => true)
  send(request(1), data(1, prefixed('a')), frame(TYPE.rstStream, 0, 1, Buffer.from([0, 0, 0, 8])))
  await expect.poll(() => copied.length).toBe(1)
  copied[0]!.settled(Buffer.alloc(0))
  await expect.poll(() => stats().calls).toBe(0)
  for (const id of [3, 5, 7]) {
    send(request(id), data(id, prefixed('b')))
    await expect.poll(() => copied.length).toBe((id + 1) / 2)
    copied.at(-1)!.settled(Buffer.alloc(0))
    expect((await answer(id)).fields['grpc-status']).toBe('0')
  }
  expect(frames.filter(({ id }) => id === 1)).toEqual([])
})

test('a call whose client does not wait longer is ended while its method has the copy', async () => {
  const { send, answer, copied, stats } = await offering(() => true)
  send(request(1, { 'grpc-timeout': '50m' }), data(1, prefixed('a')))
  expect((await answer(1)).fields['grpc-status']).toBe('4')
  expect(stats().calls).toBe(1)
  copied[0]!.settled(Buffer.alloc(0))
  await expect.poll(() => stats().calls).toBe(0)
})
