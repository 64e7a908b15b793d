// docker-compose.yaml: every part is told what it understands. Whether images build is tried where Docker is.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { expect, test } from 'vitest'
import { parse } from 'yaml'

import { train } from '../cli/train.ts'
import { validate } from '../cli/validate.ts'
import { runCommand } from './command.ts'

interface Service {
  readonly build?: string
  readonly command?: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly volumes?: readonly string[]
}

const ROOT = join(import.meta.dirname, '..')
const { services, volumes } = parse(readFileSync(join(ROOT, 'docker-compose.yaml'), 'utf8'), { merge: true }) as {
  services: Record<string, Service>
  volumes: Record<string, unknown>
}
const ours = Object.entries(services).filter(([, { build }]) => build !== undefined)

test('there is a ClickHouse server, a pipeline, an endpoint and a trainer', () => {
  expect(Object.keys(services)).toEqual(['clickhouse', 'pipeline', 'endpoint', 'trainer'])
  expect(ours.map(([name]) => name)).toEqual(['pipeline', 'endpoint', 'trainer'])
})

test.each(ours)('the configuration of %s is valid', async (_, { command, environment }) => {
  const [action, ...flags] = command!
  expect(existsSync(join(ROOT, 'cli', `${action!}.ts`))).toBe(true)
  const env = Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, value.replace(/\$\{\w+:-(.*?)\}/g, '$1')]))
  expect(await runCommand(validate, flags, { env, cwd: ROOT })).toEqual({ code: 0, stdout: '', stderr: '' })
})

test('the trainer finds its options, and the endpoint reads what it writes', async () => {
  const { command, environment } = services.trainer!
  // Without a base it gets as far as to miss it.
  const env = { ...environment, CLICKHOUSE_URL: 'http://127.0.0.1:9', LEYDEN_BASE: '/nowhere', LEYDEN_POLICIES: '/nowhere' }
  const { stderr } = await runCommand(train, [...command!.slice(1), '--steps', 'none'], { env, cwd: ROOT })
  expect(stderr).toMatch(/--steps must be/)
  expect(services.trainer!.volumes).toContain('policies:/policies')
  expect(services.endpoint!.volumes).toContain('policies:/policies:ro')
  expect(Object.keys(volumes)).toEqual(['clickhouse', 'policies'])
})
