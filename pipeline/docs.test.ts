import { describe, expect, test } from 'vitest'

import { registry } from '../cli/registry.ts'
import { exporter, type Component } from './component.ts'
import { loadConfig } from './config.ts'
import { componentPage, exampleYaml } from './docs.ts'
import { duration, group, list, oneOf, secret, text } from './schema.ts'

test('a page shows every option, nested ones under their path, and an example', () => {
  const component = exporter({
    type: 'kafka',
    summary: 'Writes items to a topic.',
    signals: ['traces', 'logs'],
    aliases: ['kafka_old'],
    config: {
      topic: text('Topic to write to.', { example: 'spans', aliases: ['channel'] }),
      acks: oneOf(['one', 'all'], 'Who must have it: one|all.', { default: 'all' }),
      password: secret('Password.', { default: '' }),
      brokers: list(group({ host: text('Name.'), timeout: duration('Patience.', { default: '5s' }) }, 'A broker.'), 'Where to connect.', {
        default: [],
      }),
      tls: group({ ca_file: text('Certificate.', { default: null }) }, 'Encryption.', { default: null }),
      retry: group({ wait: duration('Pause.', { default: '1s' }) }, 'Retries.'),
    },
    create: () => ({ export: async () => {} }),
  })
  expect(componentPage(component)).toMatchInlineSnapshot(`
    "# kafka exporter

    Writes items to a topic.

    Stands in pipelines of \`traces\` and \`logs\`.

    Old names that still work, with a warning: \`kafka_old\`.

    ## Options

    | option | value | default | meaning |
    | --- | --- | --- | --- |
    | \`topic\` | a string | **required** | Topic to write to. Old names: \`channel\`. |
    | \`acks\` | one of one, all | \`all\` | Who must have it: one\\|all. |
    | \`password\` | a string (secret) | \`""\` | Password. |
    | \`brokers\` | a list, each item a map of options | \`[]\` | Where to connect. |
    | \`brokers::*::host\` | a string | **required** | Name. |
    | \`brokers::*::timeout\` | a duration | \`5s\` | Patience. |
    | \`tls\` | a map of options | off | Encryption. |
    | \`tls::ca_file\` | a string | not set | Certificate. |
    | \`retry\` | a map of options | as below | Retries. |
    | \`retry::wait\` | a duration | \`1s\` | Pause. |

    ## Example

    \`\`\`yaml
    exporters:
      kafka:
        topic: spans
        acks: all
        password: ""
        brokers: []
    \`\`\`
    "
  `)
})

test('a required option without an example is refused, since no page can be made', () => {
  const component = exporter({
    type: 'x',
    summary: 'X.',
    signals: [],
    config: { path: text('Path.') },
    create: () => ({ export: async () => {} }),
  })
  expect(() => componentPage(component)).toThrow('give the required option "path" an example')
})

const all: readonly Component[] = Object.values(registry).flat()
describe.each([...all])('the example on the page of $type', (component) => {
  test('can be loaded as it is', async () => {
    const { problems } = await loadConfig([`yaml:${exampleYaml(component)}`], { registry, env: {}, cwd: '/' })
    expect(problems.filter(({ path }) => !path.startsWith('service'))).toEqual([])
  })
})
