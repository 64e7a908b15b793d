import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterEach, describe, expect, test } from 'vitest'

import { connector, exporter, extension, processor, receiver, type Registry } from './component.ts'
import { loadConfig } from './config.ts'
import { formatProblems } from './problems.ts'
import { group, list, number, secret, text } from './schema.ts'

const create = () => {
  throw new Error('loading a configuration starts nothing')
}
const registry: Registry = {
  receivers: [
    receiver({
      type: 'otlp',
      summary: '',
      signals: ['traces', 'logs'],
      config: { grpc: group({ endpoint: text('', { default: 'localhost:4317' }) }, '') },
      create,
    }),
  ],
  processors: [
    processor({
      type: 'credit_assignment',
      summary: '',
      signals: ['rollouts'],
      config: { gamma: number('', { default: 1, min: 0, max: 1 }) },
      create,
    }),
    processor({
      type: 'limiter',
      summary: '',
      signals: ['traces', 'logs'],
      config: { limit: number('', { default: 2 }), spike: number('', { default: 1 }) },
      check: ({ limit, spike }) => (spike < limit ? [] : [{ message: "'spike' must be smaller than 'limit'" }]),
      create,
    }),
  ],
  exporters: [
    exporter({
      type: 'clickhouse',
      summary: '',
      signals: ['traces', 'logs', 'rollouts'],
      aliases: ['ch'],
      config: {
        url: text('', { default: 'embedded', aliases: ['endpoint'] }),
        password: secret('', { default: '' }),
        columns: list(text(''), '', { default: [] }),
      },
      create,
    }),
  ],
  connectors: [
    connector({ type: 'copy', summary: '', signals: ['traces', 'logs'], to: ['traces', 'logs'], config: {}, create }),
    connector({
      type: 'rollouts',
      summary: '',
      signals: ['traces', 'logs'],
      to: ['rollouts'],
      soleUserOf: 'storage',
      config: { storage: text('', { default: 'store' }) },
      create,
    }),
  ],
  extensions: [extension({ type: 'store', summary: '', config: {}, create })],
}

const folders: string[] = []
afterEach(() => folders.splice(0).forEach((folder) => rmSync(folder, { recursive: true })))

/** Loads the files in the order in which they are given. */
async function load(files: string | Record<string, string>, env = {}, sources?: string[]) {
  const cwd = mkdtempSync(join(tmpdir(), 'leyden-config-'))
  folders.push(cwd)
  const named = typeof files === 'string' ? { 'pipeline.yaml': files } : files
  for (const [name, content] of Object.entries(named)) writeFileSync(join(cwd, name), content)
  const { problems, ...loaded } = await loadConfig(sources ?? Object.keys(named), { registry, env, cwd })
  return { ...loaded, problems: formatProblems(problems) }
}

const service = 'service: {pipelines: {traces: {receivers: [otlp], exporters: [clickhouse]}}}'
const minimal = `receivers: {otlp: }\nexporters: {clickhouse: }\n${service}\n`

test('a sound configuration becomes a plan, every default filled in', async () => {
  const { plan, problems, warnings } = await load(
    `receivers: {otlp: }
processors: {limiter/small: {limit: 5}}
exporters: {clickhouse: }
extensions: {store: }
service:
  extensions: [store]
  shutdown_timeout: 1m
  pipelines:
    traces/a: {receivers: [otlp], processors: [limiter/small], exporters: [clickhouse, clickhouse]}
`,
  )
  expect([problems, warnings]).toEqual([[], []])
  expect(plan!.processors.get('limiter/small')!.config).toEqual({ limit: 5, spike: 1 })
  expect(plan!.exporters.get('clickhouse')!.component).toBe(registry.exporters[0])
  expect(plan!.service).toMatchObject({
    extensions: ['store'],
    shutdown_timeout: 60_000,
    pipelines: [{ id: 'traces/a', signal: 'traces', receivers: ['otlp'], processors: ['limiter/small'], exporters: ['clickhouse'] }],
    telemetry: {
      logs: { level: 'info' },
      metrics: { readers: [{ pull: { exporter: { prometheus: { host: '127.0.0.1', port: 8888 } } } }] },
    },
  })
})

test('every mistake is reported in one run, in the order of the file, and there is no plan', async () => {
  const { plan, problems } = await load(`receivers:
  otlp:
    grpc: {endpont: localhost:4317}
processors:
  credit_assignment: {gamma: 2}
exporters:
  clickhouse: {password: "\${env:1PASS}"}
service:
  pipelines:
    rollouts: {receivers: [rollouts], processors: [credit_assigment], exporters: [clickhouse]}
    traces: {receivers: [otlp]}
connectors: {rollouts: }
`)
  expect(plan).toBeUndefined()
  expect(problems.join('\n')).toMatchInlineSnapshot(`
    "pipeline.yaml:3:12   receivers::otlp::grpc::endpont: unknown option, did you mean "endpoint"?
    pipeline.yaml:5:23   processors::credit_assignment::gamma: must be a number from 0 to 1 (got 2)
    pipeline.yaml:7:26   exporters::clickhouse::password: environment variable "1PASS" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$
    pipeline.yaml:10:28  service::pipelines::rollouts: connector "rollouts" used as receiver in [rollouts] pipeline but not used in any supported exporter pipeline
    pipeline.yaml:10:52  service::pipelines::rollouts: references processor "credit_assigment" which is not configured, did you mean "credit_assignment"?
    pipeline.yaml:11:5   service::pipelines::traces: must have at least one exporter"
  `)
})

describe('a warning', () => {
  test.each([
    [
      'tells an old type its new name',
      minimal.replaceAll('clickhouse', 'ch'),
      'pipeline.yaml:2:13  exporters::ch: "ch" alias is deprecated; use "clickhouse" instead',
    ],
    [
      'tells an old option its new name',
      minimal.replace('clickhouse: ', 'clickhouse: {endpoint: x}'),
      'pipeline.yaml:2:26  exporters::clickhouse::endpoint: "endpoint" is an old name of "url"',
    ],
    [
      'names an environment variable that is not set',
      minimal.replace('clickhouse: ', 'clickhouse: {url: "http://${env:NOPE}"}'),
      'pipeline.yaml:2:31  exporters::clickhouse::url: configuration references unset environment variable "NOPE"',
    ],
    [
      'tells what a batch processor does here',
      minimal.replace('exporters: [', 'processors: [batch], exporters: [') + 'processors: {batch: {timeout: 1s}}\n',
      'pipeline.yaml:4:14  processors::batch: does nothing here: exporters make batches themselves, see sending_queue::batch',
    ],
  ])('%s', async (_what, yaml, warning) => {
    const { plan, problems, warnings } = await load(yaml)
    expect([problems, warnings]).toEqual([[], [warning]])
    expect(plan!.service.pipelines[0]!.processors).toEqual([])
  })

  test('tells that a key without a value erased what an earlier file said', async () => {
    const { warnings } = await load({ 'a.yaml': minimal, 'b.yaml': 'exporters:\n' })
    expect(warnings).toEqual(['b.yaml:1:1  exporters: has no value here, which erases what an earlier source says of it'])
  })
})

test('an option under its old and its new name at once is an error', async () => {
  const { problems } = await load(minimal.replace('clickhouse: ', 'clickhouse: {url: a, endpoint: b}'))
  expect(problems).toEqual(['pipeline.yaml:2:34  exporters::clickhouse::endpoint: is the old name of "url", which is set too'])
})

describe('an expansion', () => {
  test('in a file that another one includes is reported there', async () => {
    const { problems } = await load(
      { 'a.yaml': `receivers: {otlp: }\nexporters: \${file:more.yaml}\n${service}`, 'more.yaml': '\nclickhouse:\n  url: ${nope:x}\n' },
      {},
      ['a.yaml'],
    )
    expect(problems).toEqual([
      'more.yaml:3:8  exporters::clickhouse::url: scheme "nope" is not supported for uri "nope:x" (supported: env, file, yaml)',
    ])
  })

  test('that fails gives rise to no other errors', async () => {
    const { problems } = await load(
      `receivers: {otlp: }\nexporters: \${file:no.yaml}\nprocessors: {limiter: {limit: "\${a b}"}}\n${service}`,
    )
    expect(problems).toEqual([
      'pipeline.yaml:2:12  exporters: unable to read the file no.yaml: no such file or directory',
      'pipeline.yaml:3:31  processors::limiter::limit: environment variable "a b" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$',
    ])
  })

  test('that should bring in a map but does not says why', async () => {
    const files = {
      'a.yaml': `receivers: {otlp: "\${file:broken.yaml}"}\nexporters: \${file:broken.yaml}\n${service}`,
      'broken.yaml': 'a: 1\nb: [\n',
    }
    const { problems } = await load(files, {}, ['a.yaml'])
    expect(problems.map((line) => line.split(':')[1])).toEqual(['1', '2'])
    expect(problems).toEqual(Array(2).fill(expect.stringContaining('and what was brought in is no YAML at broken.yaml:2: ')))
  })

  test('looks at its default only where it is needed', async () => {
    const yaml = minimal.replace('clickhouse: ', 'clickhouse: {url: "${env:A:-${env:B:-b}${env:C}}"}')
    expect((await load(yaml, { A: 'a' })).warnings).toEqual([])
    const { plan, warnings } = await load(yaml, {})
    expect(plan!.exporters.get('clickhouse')!.config.url).toBe('b')
    expect(warnings).toEqual([expect.stringContaining('"C"')])
  })

  test('keeps the text for an option that takes text, whatever the text means as YAML', async () => {
    const yaml = minimal.replace('clickhouse: ', 'clickhouse: {url: "${U}", columns: "${C}"}')
    const { plan } = await load(yaml, { U: '{a: 1}', C: '["${N}", b]', N: '1e3' })
    expect(plan!.exporters.get('clickhouse')!.config).toMatchObject({ url: '{a: 1}', columns: ['1e3', 'b'] })
  })
})

describe('pipelines', () => {
  const two = (connectors: string, a: string, b: string) => `receivers: {otlp: }
exporters: {clickhouse: }
processors: {limiter: }
connectors: {${connectors}}
extensions: {store: }
service:
  extensions: [store]
  pipelines:
    ${a}
    ${b}
`
  test.each([
    [
      'must not go round',
      two(
        'copy: , copy/b: ',
        'traces/a: {receivers: [otlp, copy/b], exporters: [copy]}',
        'logs/b: {receivers: [copy], processors: [limiter], exporters: [copy/b, clickhouse]}',
      ),
      'pipeline.yaml:9:5  service::pipelines::traces/a: cycle detected: connector "copy" (traces to logs) -> processor "limiter" in pipeline "logs/b" -> connector "copy/b" (logs to traces) -> connector "copy" (traces to logs)',
    ],
    [
      'must not use one extension for two connectors that want it for themselves',
      two(
        'rollouts: , rollouts/b: ',
        'traces: {receivers: [otlp], exporters: [rollouts, rollouts/b]}',
        'rollouts: {receivers: [rollouts, rollouts/b], exporters: [clickhouse]}',
      ),
      'pipeline.yaml:4:26  connectors::rollouts/b::storage: "store" is used by connector "rollouts" already, and only one may',
    ],
    [
      'of one id may be written once',
      two('', 'traces/a: {receivers: [otlp], exporters: [clickhouse]}', '"traces / a": {receivers: [otlp], exporters: [clickhouse]}'),
      'pipeline.yaml:10:5  service::pipelines: duplicate name "traces/a" after trimming spaces',
    ],
    [
      'get from a connector only what it gives',
      two('rollouts: ', 'traces: {receivers: [otlp], exporters: [rollouts]}', 'logs: {receivers: [rollouts], exporters: [clickhouse]}'),
      'pipeline.yaml:10:24  service::pipelines::logs: connector "rollouts" gives rollouts, not logs',
    ],
  ])('%s', async (_what, yaml, problem) => {
    const { problems } = await load(yaml)
    expect(problems.map((line) => line.replace(/ +/, '  '))).toContain(problem)
  })

  test('cannot tell a connector from an exporter of the same id', async () => {
    const both = {
      ...registry,
      exporters: [...registry.exporters, exporter({ type: 'copy', summary: '', signals: ['traces'], config: {}, create })],
    }
    const source = `yaml:${two('copy: ', 'traces: {receivers: [otlp], exporters: [copy]}', 'logs: {receivers: [copy], exporters: [clickhouse]}').replace('exporters: {', 'exporters: {copy: , ')}`
    const { problems } = await loadConfig([source], { registry: both, env: {}, cwd: '/' })
    expect(formatProblems(problems)).toEqual([
      'connectors::copy: ambiguous ID: Found both "copy" exporter and "copy" connector. Change one of the components\' IDs to eliminate ambiguity (e.g. rename "copy" connector to "copy/connector")',
    ])
  })
})

test("what a component's own check finds is reported at the component, and only where its options are sound", async () => {
  const limiter = (options: string) => load(`${minimal}processors:\n  limiter: ${options}\n`)
  expect((await limiter('{spike: 3}')).problems).toEqual(["pipeline.yaml:5:3  processors::limiter: 'spike' must be smaller than 'limit'"])
  expect((await limiter('{spike: 3, limit: x}')).problems).toEqual([expect.stringContaining('limiter::limit: must be a number (got "x")')])
})

test('a source that cannot be read is told, and nothing is guessed of the rest', async () => {
  const { problems } = await load({ 'a.yaml': 'receivers: [', 'b.yaml': 'exporters: {wrong: }' }, {}, ['a.yaml', 'nosuch.yaml', 'b.yaml'])
  expect(problems).toEqual([
    expect.stringMatching(/^a\.yaml:1:\d+ /),
    expect.stringContaining('unable to read the file nosuch.yaml: no such file or directory'),
  ])
})

test('what a flag gave has no place in a file', async () => {
  const { problems } = await load({ 'a.yaml': minimal }, {}, ['a.yaml', 'yaml:exporters::clickhouse::urll: x'])
  expect(problems).toEqual(['exporters::clickhouse::urll: unknown option, did you mean "url"?'])
})

test('several options may come in one yaml: source', async () => {
  const { plan } = await load({ 'a.yaml': minimal }, {}, [
    'a.yaml',
    'yaml:{exporters::clickhouse::url: x, exporters::clickhouse::password: y}',
  ])
  expect(plan!.exporters.get('clickhouse')!.config).toMatchObject({ url: 'x', password: 'y' })
})
