import { expect, test } from 'vitest'
import { parse } from 'yaml'

import { runCommand } from '../test/command.ts'
import { components } from './components.ts'
import { registry } from './registry.ts'
import { packageVersion } from './version.ts'

test('every component is listed with what it is for and the signals it works on', async () => {
  const { code, stdout } = await runCommand(components, [])
  const listed = parse(stdout) as Record<string, { name: string }[]>
  expect(code).toBe(0)
  expect(listed).toMatchObject({ buildinfo: { command: 'leyden', version: packageVersion }, providers: ['env', 'file', 'yaml'] })
  for (const [kind, list] of Object.entries(registry)) {
    expect(listed[kind]!.map(({ name }) => name)).toEqual(list.map(({ type }: { type: string }) => type))
  }
  expect(listed.connectors).toContainEqual({
    name: 'rollouts',
    module: `leyden/connectors/rollouts v${packageVersion}`,
    summary: registry.connectors.find(({ type }) => type === 'rollouts')!.summary,
    stability: { 'traces-to-rollouts': 'Alpha', 'logs-to-rollouts': 'Alpha' },
  })
})
