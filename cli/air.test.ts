import { afterAll, beforeAll, expect, test } from 'vitest'

import type { Rollout, Tool } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { main } from './leyden.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
  const rollouts = Array.from({ length: 60 }, (_, i) => run(i))
  await storage.writeRevision(rollouts)
  await storage.commit(rollouts)
})
afterAll(() => storage.close())

/** Even ones search well and fail; odd ones search badly and succeed. All write well. */
function run(i: number): Rollout {
  const one = rollout({ calls: 1, rollout_id: `r${i}`, reward: i % 2 })
  const tool = (name: string, air_class: 'ok' | 'policy_error', air_rule: string): Tool => ({
    ...{ ...one.calls[0]!, kind: 'tool', name, inferred: false, requested_by: one.calls[0]!.span_id, air_class, air_rule },
    verdict: { status: 'ok', evidence: 'result' },
  })
  const search = i % 2 ? tool('search', 'policy_error', 'policy_error by statuses') : tool('search', 'ok', 'ok: no rule')
  return { ...one, tools: [search, tool('write', 'ok', 'ok: no rule')] }
}

async function air(...args: string[]): Promise<string> {
  let said = ''
  const keep = (text: string) => void (said += text)
  await main(['air', ...args], { stdout: keep, stderr: keep, env: { CLICKHOUSE_URL: storage.url }, cwd: storage.folder })
  return said
}

test('each rule is told with how rollouts ended, and those that would mislead with a warning', async () => {
  expect((await air('report')).split('\n')).toEqual([
    'fired  tool    rule                      rollouts  outcome  others  their outcome',
    '60     write   ok: no rule               60        0.500    0       -',
    '30     search  ok: no rule               30        0.000    30      1.000',
    '30     search  policy_error by statuses  30        1.000    30      0.000',
    expect.stringContaining('warning: search, ok: no rule: rollouts in which this went well end worse'),
    expect.stringContaining('warning: search, policy_error by statuses: rollouts with this error end better'),
    '',
  ])
})

test('nothing judged is said as well', async () => {
  expect(await air('report', '--since', '2100-01-01')).toBe('no tool of a scored rollout was judged\n')
})

test('what it does not know is refused', async () => {
  expect(await air('reports')).toContain('say what to do: leyden air report')
})
