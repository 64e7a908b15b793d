import { createServer } from 'node:http'

import { expect, test } from 'vitest'

import { close, listen, parseEndpoint } from './listen.ts'

test.each([
  ['localhost:4318', { host: '127.0.0.1', port: 4318 }],
  ['0.0.0.0:4317', { host: '0.0.0.0', port: 4317 }],
  [':4317', { host: '0.0.0.0', port: 4317 }],
  ['[::1]:4318', { host: '::1', port: 4318 }],
  ['example.org:0', { host: 'example.org', port: 0 }],
  ['localhost', undefined],
  ['localhost:99999', undefined],
  ['http://localhost:4318', undefined],
])('the endpoint %s is read as %j', (endpoint, address) => {
  expect(parseEndpoint(endpoint)).toEqual(address)
})

test('a port in use names the address and the option to change', async () => {
  const first = createServer()
  const { port } = await listen(first, { host: '127.0.0.1', port: 0 }, '')
  await expect(listen(createServer(), { host: '127.0.0.1', port }, 'receivers::scores::endpoint')).rejects.toThrow(
    `listen tcp 127.0.0.1:${port}: bind: address already in use; set receivers::scores::endpoint to another address`,
  )
  await close(first)
  await close(first)
})
