import { expect, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { validate } from './validate.ts'

const sound = `yaml:
receivers: {otlp: }
exporters: {debug: }
service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}
`

test('a sound configuration is passed over in silence', async () => {
  expect(await runCommand(validate, ['--config', sound])).toEqual({ code: 0, stdout: '', stderr: '' })
})

test('every mistake is written to standard error', async () => {
  const { code, stdout, stderr } = await runCommand(validate, [
    '--config',
    sound,
    '--set',
    'exporters.debug.verbos=basic',
    '--set',
    'service.pipeline=x',
  ])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain('exporters::debug::verbos: unknown option')
  expect(stderr).toContain('service::pipeline: unknown option, did you mean "pipelines"?')
})

test.each([
  [['--confg', 'a'], 'Error: unknown flag: --confg, did you mean "--config"?\n'],
  [['--config', sound, '--set', 'a.b'], 'Error: invalid argument "a.b" for "--set" flag: missing equal sign\n'],
  [['--set', 'a.b=c'], 'at least one config flag must be provided, e.g. --config config/pipeline.yaml\n'],
  [['--config'], "Error: Option '--config <value>' argument missing\n"],
  [['pipeline.yaml'], "Error: Unexpected argument 'pipeline.yaml'. This command does not take positional arguments\n"],
])('a wrong call is answered in one line: %j', async (args, stderr) => {
  expect(await runCommand(validate, args)).toEqual({ code: 1, stdout: '', stderr })
})
