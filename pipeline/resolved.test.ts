import { expect, test } from 'vitest'
import { stringify } from 'yaml'

import { exporter, receiver, type Registry } from './component.ts'
import { loadConfig } from './config.ts'
import { resolved } from './resolved.ts'
import { duration, group, list, map, secret, text } from './schema.ts'

const create = () => {
  throw new Error('printing a configuration starts nothing')
}
const registry: Registry = {
  receivers: [receiver({ type: 'in', summary: '', signals: ['traces'], config: {}, create })],
  processors: [],
  exporters: [
    exporter({
      type: 'out',
      summary: '',
      signals: ['traces'],
      config: {
        url: text('', { default: 'http://localhost' }),
        token: secret('', { default: '' }),
        headers: map(secret(''), '', { default: {} }),
        retry: group({ wait: duration('', { default: '90s' }) }, ''),
        tls: group({}, '', { default: null }),
        columns: list(text(''), '', { default: ['a'] }),
      },
      create,
    }),
  ],
  connectors: [],
  extensions: [],
}

const source = `yaml:
receivers: {in: }
exporters: {out: {url: "http://me:hunter2@host/", token: hunter2, headers: {authorization: hunter2}}, out/bare: }
service: {pipelines: {traces/a: {receivers: [in], exporters: [out, out/bare]}}}
`

async function load(text: string) {
  const { plan, problems } = await loadConfig([text], { registry, env: {}, cwd: '/' })
  expect(problems).toEqual([])
  return plan!
}

test('defaults are filled in, durations print as Go prints them, secrets are hidden', async () => {
  const printed = resolved(await load(source), 'hidden')
  expect(printed.exporters).toEqual({
    out: {
      url: 'http://me:[REDACTED]@host/',
      token: '[REDACTED]',
      headers: { authorization: '[REDACTED]' },
      retry: { wait: '1m30s' },
      columns: ['a'],
    },
    'out/bare': { url: 'http://localhost', token: '', headers: {}, retry: { wait: '1m30s' }, columns: ['a'] },
  })
  expect(JSON.stringify(printed)).not.toContain('hunter2')
})

test('what is printed with its secrets loads to the same plan', async () => {
  const plan = await load(source)
  expect(await load(`yaml:${stringify(resolved(plan, 'shown'))}`)).toEqual(plan)
})
