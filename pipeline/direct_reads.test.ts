import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'

import { expect, onTestFinished, test } from 'vitest'

import { readDirectly } from './direct_reads.ts'

test('a connection is read into one buffer, pauses, goes on, and ends', async () => {
  const pieces: { text: string; memory: ArrayBufferLike }[] = []
  const server = createServer({ pauseOnConnect: true })
  onTestFinished(() => void server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [accepted] = (await once(server, 'connection')) as [Socket]
  const socket = readDirectly(accepted, { receive: (piece) => pieces.push({ text: piece.toString(), memory: piece.buffer }) })
  socket.resume()
  client.write('one')
  await expect.poll(() => pieces.length).toBe(1)
  socket.pause()
  client.write('two')
  socket.write('answer')
  expect(String((await once(client, 'data'))[0])).toBe('answer')
  expect(pieces).toHaveLength(1)
  socket.resume()
  await expect.poll(() => pieces.map(({ text }) => text)).toEqual(['one', 'two'])
  expect(pieces[0]!.memory).toBe(pieces[1]!.memory)
  client.end()
  await once(socket, 'close')
})

test('a socket whose handle is not to be had is read as usual', async () => {
  const pieces: string[] = []
  const stream = new PassThrough()
  const socket = readDirectly(stream as unknown as Socket, { receive: (piece) => pieces.push(piece.toString()) })
  stream.write('one')
  expect(pieces).toEqual([])
  socket.resume()
  await expect.poll(() => pieces).toEqual(['one'])
})
