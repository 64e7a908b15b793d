import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'

import { expect, test } from 'vitest'

import { authority, signedBy } from '../test/certificates.ts'
import { conforms, configure, problems, testContext } from '../test/conformance.ts'
import health_check from './health_check.ts'

conforms(health_check)

async function start(options: object = {}) {
  const context = testContext({ id: 'health_check', kind: 'extension' })
  const running = configure(health_check, { endpoint: 'localhost:0', ...options }, context)
  await running.start?.()
  const url = `http://127.0.0.1:${String(context.lines[0]!.fields!.port)}`
  const ask = async (path = '/') => {
    const answer = await fetch(url + path)
    return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() }
  }
  return { ...running, context, ask }
}

test('it is healthy once every pipeline runs, until shutdown begins', async () => {
  const { ask, ready, notReady, shutdown } = await start()
  const before = await ask()
  expect([before.status, JSON.parse(before.text)]).toEqual([
    503,
    { status: 'Server not available', upSince: '0001-01-01T00:00:00.000Z', uptime: '' },
  ])
  ready?.()
  const { status, type, text } = await ask('/?verbose')
  expect([status, type]).toEqual([200, 'application/json'])
  expect(JSON.parse(text)).toEqual({
    status: 'Server available',
    upSince: expect.stringMatching(/^20/),
    uptime: expect.stringMatching(/^[\d.]+s$/),
  })
  notReady?.()
  expect((await ask()).status).toBe(503)
  await shutdown?.()
})

test('it names what keeps a component from working, and recovers', async () => {
  const { ask, context, ready, shutdown } = await start()
  ready?.()
  context.health('storage is away')
  const { status, text } = await ask()
  expect([status, JSON.parse(text).problems]).toEqual([503, [{ id: 'health_check', kind: 'extension', problem: 'storage is away' }]])
  context.health(null)
  expect((await ask()).status).toBe(200)
  await shutdown?.()
})

test('path and answers can be chosen', async () => {
  const { ask, ready, shutdown } = await start({ path: '/healthz', response_body: { healthy: 'fine' } })
  expect((await ask()).status).toBe(404)
  expect(JSON.parse((await ask('/healthz')).text).status).toBe('Server not available')
  ready?.()
  expect((await ask('/healthz')).text).toBe('fine')
  await shutdown?.()
})

test('a port in use names the option to change', async () => {
  const { context, shutdown } = await start()
  const endpoint = `localhost:${String(context.lines[0]!.fields!.port)}`
  await expect(start({ endpoint })).rejects.toThrow(
    'bind: address already in use; set extensions::health_check::endpoint to another address',
  )
  await shutdown?.()
})

test('it is asked over TLS', async () => {
  const ca = await authority()
  const { cert, key } = await signedBy(ca)
  const { context, shutdown } = await start({ tls: { cert_pem: cert, key_pem: key } })
  const port = Number(context.lines[0]!.fields!.port)
  const [response] = (await once(https.get({ host: 'localhost', port, ca: ca.cert, agent: false }), 'response')) as [IncomingMessage]
  expect(response.statusCode).toBe(503)
  response.resume()
  await shutdown?.()
  await expect(start({ tls: { cert_pem: 'x', key_pem: key } })).rejects.toThrow('tls: cert_pem must be a certificate in PEM format')
})

test('an endpoint without a port and a path without a slash are refused', () => {
  expect(problems(health_check, { endpoint: 'localhost', path: 'healthz' })).toEqual([
    'endpoint: must be host:port, e.g. localhost:4318 (got "localhost")',
    'path: must start with / (got "healthz")',
  ])
})
