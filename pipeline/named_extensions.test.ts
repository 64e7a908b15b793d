import { expect, test } from 'vitest'

import { exporter, extension, receiver, type Registry } from './component.ts'
import { loadConfig } from './config.ts'
import { formatProblems } from './problems.ts'
import { extensionId, group } from './schema.ts'

const create = () => {
  throw new Error('loading a configuration starts nothing')
}
const auth = group({ authenticator: extensionId('authenticator', '') }, '', { default: null })
const registry: Registry = {
  receivers: [
    receiver({ type: 'otlp', summary: '', signals: ['traces'], config: { http: group({ auth }, '', { default: null }) }, create }),
  ],
  processors: [],
  exporters: [exporter({ type: 'debug', summary: '', signals: ['traces'], config: {}, create })],
  connectors: [],
  extensions: [
    extension({ type: 'token', summary: '', role: 'authenticator', config: {}, create }),
    extension({ type: 'health', summary: '', config: {}, create }),
  ],
}

async function problemsOf(authenticator: string, listed: string, receivers = 'otlp'): Promise<string[]> {
  const file = `
receivers:
  otlp: {http: {auth: {authenticator: ${authenticator}}}}
  otlp/open:
exporters: {debug: }
extensions: {token/a: , health: }
service:
  extensions: [${listed}]
  pipelines: {traces: {receivers: [${receivers}], exporters: [debug]}}
`
  const { problems } = await loadConfig([`yaml:${file}`], { registry, env: {}, cwd: '.' })
  return formatProblems(problems)
}

test.each([
  ['one that runs', 'token/a', 'token/a', []],
  [
    'one that is not configured',
    'tocken/a',
    'token/a',
    ['references extension "tocken/a" which is not configured, did you mean "token/a"?'],
  ],
  ['one that is not listed', 'token/a', 'health', ['references extension "token/a" which service::extensions does not list']],
  ['one that does something else', 'health', 'health', ['extension "health" is no authenticator']],
])('an option may name an extension: %s', async (_which, named, listed, expected) => {
  const found = await problemsOf(named, listed)
  expect(found).toEqual(expected.map((message) => expect.stringContaining(`receivers::otlp::http::auth::authenticator: ${message}`)))
})

test('what no pipeline uses may name what it likes', async () => {
  expect(await problemsOf('nothing', '', 'otlp/open')).toEqual([])
})
