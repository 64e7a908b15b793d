import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { promisify } from 'node:util'

import { expect, onTestFinished, test } from 'vitest'

import { createHttpServer } from './http_server.ts'
import { close, listen } from './listen.ts'

const open = async (port: number): Promise<Socket> => {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  await once(socket, 'connect')
  return socket
}

async function answer(socket: Socket): Promise<string> {
  socket.write('GET / HTTP/1.1\r\nhost: here\r\n\r\n')
  return ((await once(socket, 'data')) as [string])[0]
}

test('more connections than allowed are closed and counted, and whoever comes when one has gone is served', async () => {
  const limits: string[] = []
  const server = createHttpServer({ limited: (limit) => limits.push(limit) }, (_request, response) => response.end('served'))
  const { port } = await listen(server, { host: '127.0.0.1', port: 0 }, '')
  onTestFinished(() => close(server))
  expect(server.maxConnections).toBeLessThan(Infinity)
  server.maxConnections = 2
  const here = promisify(server.getConnections.bind(server))

  const [first, second] = [await open(port), await open(port)]
  await expect.poll(here).toBe(2)
  await once(
    connect(port, '127.0.0.1').on('error', () => {}),
    'close',
  )
  expect(limits).toEqual(['connections'])
  expect(await answer(first)).toMatch(/^HTTP\/1.1 200/)
  second.destroy()
  await expect.poll(here).toBe(1)
  const third = await open(port)
  expect(await answer(third)).toMatch(/^HTTP\/1.1 200/)
  for (const socket of [first, third]) socket.destroy()
})
