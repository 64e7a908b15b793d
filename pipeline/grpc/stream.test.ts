// One connection over a stream in memory: however the bytes are cut, and whatever they are.

import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'

import { expect, test } from 'vitest'

import { ECHO } from '../../test/grpc.ts'
import { seeded } from '../../test/random.ts'
import { data, HELLO, prefixed, request, requestBlock } from '../../test/raw_h2.ts'
import type { Service } from './calls.ts'
import { createConnection, type Connection } from './connection.ts'
import { CODE, FLAG, frame, goAway, rstStream, SETTING, settingsFrame, TYPE, windowUpdate } from './frames.ts'
import { DEFAULT_LIMITS } from './grpc.ts'
import { createGunzip } from './gunzip.ts'
import { createPool } from '../pool.ts'

const LIMITS = { ...DEFAULT_LIMITS, maxMessageBytes: 100_000, maxBytesInFlight: 4 << 20 }

/** A service that keeps what it is asked, and answers in its own time. */
function keeping(answerAfter: () => Promise<unknown> = async () => {}) {
  const messages: string[] = []
  const mistakes: unknown[] = []
  const pool = createPool(LIMITS.maxBytesInFlight, () => {})
  const service: Service = {
    limits: LIMITS,
    pool,
    gunzip: createGunzip(pool, LIMITS.maxMessageBytes, () => {}),
    methods: new Map([
      [
        ECHO,
        async (message, call) => {
          messages.push(`${call.metadata('x-id')} ${message.toString('base64')}`)
          await answerAfter()
          return message.subarray(0, 10)
        },
      ],
    ]),
    errorOf: (error) => ({ code: 2, message: String(error) }),
    onError: (error) => mistakes.push(error),
    handling: () => {},
    congested: () => false,
    limited: () => {},
  }
  return { service, pool, messages, mistakes }
}

/** A stream whose other end keeps what it is sent. */
function open(service: Service): { connection: Connection; stream: Duplex; written: Buffer[] } {
  const written: Buffer[] = []
  const stream = new Duplex({ read() {}, write: (piece: Buffer, _encoding, done) => (written.push(piece), done()) })
  return { connection: createConnection(stream, service), stream, written }
}

const large = Buffer.alloc(30_000, 'prompt ')
const block = requestBlock({ 'x-id': '5' })
const CONVERSATION = Buffer.concat([
  HELLO,
  settingsFrame([[SETTING.initialWindowSize, 1 << 20]]),
  request(1, { 'x-id': '1' }),
  data(1, prefixed('small')),
  request(3, { 'x-id': '3' }),
  data(3, prefixed(large).subarray(0, 9_000), 0),
  request(7, { 'x-id': '7', 'grpc-encoding': 'gzip' }),
  frame(TYPE.data, FLAG.padded, 3, Buffer.concat([Buffer.from([77]), prefixed(large).subarray(9_000, 20_000), Buffer.alloc(77)])),
  data(7, prefixed(gzipSync(large), 1)),
  frame(TYPE.ping, 0, 0, Buffer.from('12345678')),
  data(3, prefixed(large).subarray(20_000)),
  frame(TYPE.headers, FLAG.endStream, 9, block.subarray(0, 20)),
  frame(TYPE.continuation, FLAG.endHeaders, 9, block.subarray(20)),
  request(11, { 'x-id': '11', 'grpc-encoding': 'gzip' }),
  data(11, prefixed('to be reset'), 0),
  rstStream(11, CODE.cancel),
  windowUpdate(0, 100_000),
  request(13, { 'x-id': '13' }),
  data(13, prefixed(''), 0),
  data(13, Buffer.alloc(0)),
  goAway(0, CODE.noError),
])

test('however the stream is cut, the messages and the answers are the same', async () => {
  const whole = await converse([CONVERSATION])
  expect(whole.messages.map((message) => message.split(' ')[0])).toEqual(['1', '3', '7', '13'])
  const random = seeded(3)
  for (let i = 0; i < 300; i++) {
    const most = 1 + 2 ** random(13)
    const pieces: Buffer[] = []
    for (let at = 0; at < CONVERSATION.length;) pieces.push(CONVERSATION.subarray(at, (at += 1 + random(most))))
    expect(await converse(pieces)).toEqual(whole)
  }
})

async function converse(pieces: Buffer[]) {
  const { service, pool, messages, mistakes } = keeping()
  const { connection, stream, written } = open(service)
  const shared = Buffer.alloc(CONVERSATION.length)
  for (const piece of pieces) connection.receive(shared.subarray(0, piece.copy(shared))) // as from the one buffer that sockets are read into
  while (connection.calls() > 0) await turn()
  await turn()
  stream.destroy()
  expect(mistakes).toEqual([])
  expect(pool.used()).toBe(0)
  return { messages: messages.sort(byId), bytes: Buffer.concat(written).length }
}

const byId = (a: string, b: string) => parseInt(a) - parseInt(b)

test('what is answered in one turn goes out in one write', async () => {
  let flush = () => {}
  const flushed = new Promise<void>((resolve) => (flush = resolve))
  const { service } = keeping(() => flushed)
  const { connection, written } = open(service)
  const calls = Array.from({ length: 50 }, (_, i) => [request(2 * i + 1), data(2 * i + 1, prefixed('x'))])
  connection.receive(Buffer.concat([HELLO, ...calls.flat()]))
  await turn()
  const before = written.length
  flush()
  await turn()
  expect(connection.calls()).toBe(0)
  expect(written.length - before).toBe(1)
})

test('20,000 mutated conversations: no mistake of ours, no memory lost', { timeout: 60_000 }, async () => {
  const { service, pool, messages, mistakes } = keeping(() => (random(2) === 0 ? turn() : Promise.resolve()))
  const random = seeded(1)
  const seeds = [CONVERSATION, CONVERSATION.subarray(0, 400), Buffer.concat([HELLO, request(1), data(1, prefixed('x'))])]
  const before = process.memoryUsage().rss
  for (let i = 0; i < 20_000; i++) {
    const { connection, stream } = open(service)
    const bytes = mutated(seeds[i % 50 === 0 ? 0 : 1 + random(2)]!, random)
    const cut = random(bytes.length)
    connection.receive(bytes.subarray(0, cut))
    if (i % 4 === 0) connection.sweep(performance.now() + 2 ** random(20))
    if (i % 7 === 0) connection.drain()
    connection.receive(bytes.subarray(cut))
    if (i % 100 === 0) await turn()
    messages.length = 0
    stream.destroy()
  }
  while (pool.used() > 0) await turn()
  expect(mistakes).toEqual([])
  expect(process.memoryUsage().rss - before).toBeLessThan(100 << 20)
})

/** Bytes changed, removed, doubled, moved, or frames of chance put between. */
function mutated(seed: Buffer, random: (n: number) => number): Buffer {
  let bytes = Buffer.from(seed)
  for (let i = random(6); i >= 0; i--) {
    const at = random(bytes.length)
    const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)]
    const noise = () => Buffer.from(Array.from({ length: random(20) }, () => random(256)))
    switch (random(6)) {
      case 0:
        bytes[at] = random(256)
        break
      case 1:
        bytes[at]! ^= 1 << random(8)
        break
      case 2:
        bytes = Buffer.concat([head, tail.subarray(random(30))])
        break
      case 3:
        bytes = Buffer.concat([head, noise(), tail])
        break
      case 4:
        bytes = Buffer.concat([bytes, frame(random(11), random(256), random(8), noise())])
        break
      case 5:
        bytes = Buffer.concat([bytes, bytes.subarray(HELLO.length + random(bytes.length))])
    }
  }
  return bytes
}
