import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { expect, test } from 'vitest'

import { cors, createCors } from './cors.ts'
import { readConfig, type Problem } from './schema.ts'

/** What a browser on a page of `origin` is told before it may POST. */
async function preflight(options: object, origin: string): Promise<Record<string, string | null>> {
  const problems: Problem[] = []
  const allow = createCors(readConfig({ cors }, { cors: options }, [], problems).cors!)
  expect(problems).toEqual([])
  const server = createServer((request, response) => {
    if (!allow(request, response)) response.end('not a preflight')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const headers = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type,x-run' }
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { method: 'OPTIONS', headers })
  server.close()
  server.closeAllConnections()
  expect(answer.status).toBe(204)
  const of = (name: string) => answer.headers.get(`access-control-${name}`)
  return { origin: of('allow-origin'), credentials: of('allow-credentials'), headers: of('allow-headers'), age: of('max-age') }
}

test.each([
  ['https://*.lab.example', 'https://ui.lab.example', true],
  ['https://*.lab.example', 'https://UI.lab.example', true],
  ['https://*.lab.example', 'https://lab.example', false],
  ['https://*.lab.example', 'https://ui.lab.example.evil.example', false],
  ['https://*.lab.example', 'https://ui-lab.example', false],
  ['https://*.lab.example', 'http://ui.lab.example', false],
  ['https://*.lab.example', 'https://evil.example/.lab.example', false],
  ['http://localhost:*', 'http://localhost:8080', true],
  ['http://localhost:8080', 'null', false],
])('the origin %s allows %s: %s', async (allowed, origin, expected) => {
  const told = await preflight({ allowed_origins: ['https://other.example', allowed] }, origin)
  expect(told.origin).toBe(expected ? origin : null)
  expect(told.headers).toBe(expected ? 'content-type' : null)
})

test('any origin may send, but not with what the browser knows of its user', async () => {
  expect(await preflight({ allowed_origins: ['*'], allowed_headers: ['x-run'], max_age: 60 }, 'https://anywhere.example')).toEqual({
    origin: '*',
    credentials: null,
    headers: 'content-type, x-run',
    age: '60',
  })
})

test('any header may be sent', async () => {
  const told = await preflight({ allowed_origins: ['https://a.example'], allowed_headers: ['*'] }, 'https://a.example')
  expect(told).toEqual({ origin: 'https://a.example', credentials: 'true', headers: 'content-type,x-run', age: null })
})
