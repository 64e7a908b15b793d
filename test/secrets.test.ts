// What a configuration keeps secret is in nothing that Leyden writes: its commands, its logs, its answers, its pages.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { hashSync } from '@node-rs/bcrypt'
import { afterAll, expect, test } from 'vitest'
import { stringify } from 'yaml'

import { printConfig } from '../cli/print_config.ts'
import { registry } from '../cli/registry.ts'
import { validate } from '../cli/validate.ts'
import type { Fields } from '../pipeline/schema.ts'
import { authority, signedBy } from './certificates.ts'
import { runCommand } from './command.ts'
import { freePort } from './leyden.ts'
import { spawnLeyden } from './process.ts'

const folder = mkdtempSync(join(tmpdir(), 'leyden-secrets-'))
afterAll(() => rmSync(folder, { recursive: true }))

const { cert, key } = await signedBy(await authority())
const hash = hashSync('hush-password', { cost: 4 })
/** What must not be said; all that the configuration hides holds one of these. */
const SECRETS = ['hush', hash.slice(7), key.split('\n')[1]!]

const [http, health, metrics, nobody] = [await freePort(), await freePort(), await freePort(), await freePort()]
const options = {
  receivers: {
    otlp: { protocols: { http: { endpoint: `localhost:${http}`, auth: { authenticator: 'basic_auth' } } } },
    'otlp/tls': {
      protocols: { http: { endpoint: 'localhost:0', tls: { cert_pem: cert, key_pem: key }, auth: { authenticator: 'bearer_token_auth' } } },
    },
  },
  exporters: {
    debug: { verbosity: 'detailed' },
    otlp_http: {
      endpoint: `http://writer:hush-url@127.0.0.1:${nobody}`,
      headers: { 'x-api-key': 'hush-header' },
      retry_on_failure: { enabled: false },
    },
  },
  extensions: {
    basic_auth: { htpasswd: { inline: `ann:${hash}` } },
    bearer_token_auth: { tokens: ['hush-token', 'hush-other-token'] },
    health_check: { endpoint: `localhost:${health}` },
  },
  service: {
    extensions: ['basic_auth', 'bearer_token_auth', 'health_check'],
    telemetry: {
      logs: { level: 'debug' },
      metrics: { readers: [{ pull: { exporter: { prometheus: { host: '127.0.0.1', port: metrics } } } }] },
      traces: {
        processors: [{ batch: { exporter: { otlp: { endpoint: `http://127.0.0.1:${nobody}`, headers: { 'x-key': 'hush-trace' } } } } }],
      },
    },
    pipelines: { traces: { receivers: ['otlp', 'otlp/tls'], exporters: ['debug', 'otlp_http'] } },
  },
}
const file = join(folder, 'pipeline.yaml')
writeFileSync(file, stringify(options))

const told = (text: string) => SECRETS.filter((secret) => text.includes(secret))

test('a run, whatever it is asked and whatever fails', async () => {
  const leyden = spawnLeyden(['run', '--config', file], { cwd: folder })
  await leyden.says('Everything is ready.')
  const said: string[] = []
  async function ask(url: string, init?: RequestInit): Promise<number> {
    const answer = await fetch(url, init)
    said.push(JSON.stringify([...answer.headers]), await answer.text())
    return answer.status
  }
  const span = { traceId: '1'.repeat(32), spanId: '1'.repeat(16), name: 'x' }
  const body = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] })
  const post = (password: string, content = body) =>
    ask(`http://127.0.0.1:${http}/v1/traces`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Basic ${Buffer.from(`ann:${password}`).toString('base64')}` },
      body: content,
    })
  expect(await post('hush-password')).toBe(503) // nobody listens where it is passed on to
  expect(await post('hush-password', '{')).toBe(400)
  expect(await post('hush-guess')).toBe(401)
  await ask(`http://127.0.0.1:${health}/`)
  await ask(`http://127.0.0.1:${metrics}/metrics`)

  writeFileSync(file, stringify(options).replace('hush-header', '[hush-header]').replace('verbosity:', 'verbositi:'))
  await leyden.says('The new configuration is not valid')
  await leyden.stop('SIGTERM')
  expect(leyden.log()).toContain('ECONNREFUSED')
  expect(said.join('\n')).toContain('otelcol_receiver_unauthenticated_requests')
  expect(told(leyden.log() + said.join('\n'))).toEqual([])
})

const load = (text: string, command = validate, ...flags: string[]) => {
  writeFileSync(join(folder, 'other.yaml'), text)
  return runCommand(command, ['--config', join(folder, 'other.yaml'), ...flags])
}

test.each(['yaml', 'json'])('print-config as %s, unless it is asked to', async (format) => {
  const flags = [`--format=${format}`]
  const { code, stdout, stderr } = await load(stringify(options), printConfig, ...flags)
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout.match(/\[REDACTED\]/g)).toHaveLength(7)
  expect(told(stdout)).toEqual([])
  expect(told((await load(stringify(options), printConfig, '--mode=unredacted', ...flags)).stdout)).toEqual(SECRETS)
})

test.each([
  ['a token that is a map', 'extensions: {bearer_token_auth: {token: {hush: hush}}}'],
  ['a token that is a number', 'extensions: {bearer_token_auth: {token: 4711}}'],
  ['tokens that are no list', 'extensions: {bearer_token_auth: {tokens: hush-token}}'],
  ['users with bad hashes', 'extensions: {basic_auth: {htpasswd: {inline: "ann:hush"}}}'],
  ['headers that are no map', 'exporters: {otlp_http: {endpoint: "http://x", headers: hush-header}}'],
  ['a URL with a password', 'extensions: {clickhouse_storage: {url: "clickhouse://writer:hush@ch:9000"}}'],
  ['an endpoint with a password', 'receivers: {otlp: {protocols: {http: {endpoint: "http://writer:hush@x"}}}}'],
  ['an open quote', 'extensions:\n  bearer_token_auth:\n    token: "hush\nservice: [x'],
  ['a key that is there twice', 'extensions:\n  bearer_token_auth:\n    token: hush\n    token: hush\n'],
])('the error about %s', async (_what, text) => {
  const { code, stdout, stderr } = await load(text)
  expect(code).toBe(1)
  expect(stderr).not.toBe('')
  expect((stdout + stderr).replace('::hush', '')).not.toMatch(/hush|4711/)
})

test('every option that sounds like a secret is one', () => {
  const open = Object.values(registry)
    .flat()
    .flatMap(({ type, config }: { type: string; config: Fields }) => names(config, type))
    .filter(({ path, secret }) => !secret && /::(?:password|token|tokens|secret|key_pem|inline|headers)$/.test(path))
  expect(open.map(({ path }) => path)).toEqual([])
})

function names(fields: Fields, path: string): { path: string; secret: boolean }[] {
  return Object.entries(fields).flatMap(([name, { secret = false, items, fields: below = {} }]) => [
    { path: `${path}::${name}`, secret: secret || items?.secret === true },
    ...names(below, `${path}::${name}`),
  ])
}

test('documents hold no key and no password', () => {
  const pages = readdirSync('docs', { recursive: true, encoding: 'utf8' }).filter((page) => page.endsWith('.md'))
  const text = [...pages.map((page) => join('docs', page)), 'README.md', 'SECURITY.md'].map((page) => readFileSync(page, 'utf8')).join('\n')
  expect(text).not.toMatch(/BEGIN [A-Z ]*PRIVATE KEY|:\/\/[^/\s:]+:[^@\s/]+@/)
})
