import { expect, test } from 'vitest'
import { parse } from 'yaml'

import { runCommand } from '../test/command.ts'
import { printConfig } from './print_config.ts'

const source = `yaml:
receivers: {otlp: {protocols: {grpc: }}}
exporters: {clickhouse: {password: hunter2}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [clickhouse]}}}
`
const print = (...args: string[]) => runCommand(printConfig, ['--config', source, ...args])

test('the configuration is printed as YAML with its defaults, its keys sorted and its secrets hidden', async () => {
  const { code, stdout } = await print()
  const config = parse(stdout) as Record<string, Record<string, unknown>>
  expect(code).toBe(0)
  expect(Object.keys(config)).toEqual(['connectors', 'exporters', 'extensions', 'processors', 'receivers', 'service'])
  expect(config.receivers).toMatchObject({ otlp: { protocols: { grpc: { endpoint: 'localhost:4317' } } } })
  expect(config.service).toMatchObject({ shutdown_timeout: '30s' })
  expect(stdout).toContain("password: '[REDACTED]'")
  expect(stdout).not.toContain('hunter2')
})

test('secrets are shown on demand', async () => {
  expect((await print('--mode', 'unredacted')).stdout).toContain('password: hunter2')
})

test('what is printed can be loaded and prints the same', async () => {
  const { stdout } = await print('--mode', 'unredacted', '--format', 'json')
  expect((await runCommand(printConfig, ['--config', `yaml:${stdout}`, '--mode=unredacted', '--format=json'])).stdout).toBe(stdout)
})

test.each(['mode', 'format'])('an unknown --%s is an error that lists the known ones', async (flag) => {
  const { code, stderr } = await print(`--${flag}`, 'x')
  expect(code).toBe(1)
  expect(stderr).toMatch(new RegExp(`^Error: invalid argument "x" for "--${flag}" flag: must be one of \\w+, \\w+\n$`))
})
