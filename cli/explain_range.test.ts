import { afterAll, beforeAll, expect, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { startLeyden, type Leyden } from '../test/leyden.ts'
import { chat, endOf, reward, traces } from '../test/spans.ts'
import { explain } from './explain.ts'

let leyden: Leyden
beforeAll(async () => {
  leyden = await startLeyden('processors: {policy_calls: {policies: [{name: p, models: [small]}]}}')
  const runs = {
    good: [chat('a', { at: 10, model: 'small' }), chat('b', { at: 20, model: 'large', answer: 'five' }), reward('r', 1, { at: 30 })],
    later: [chat('c', { at: 86_400_000, model: 'small' })],
  }
  for (const [rollout, spans] of Object.entries(runs)) {
    const own = { id: rollout, at: Math.min(...spans.map(({ at }) => at!)), for: 90 }
    const parts = spans.map((span) => ({ ...span, id: rollout + span.id, parent: rollout }))
    await leyden.post('traces', traces(rollout, [own, ...parts], { 'leyden.rollout.id': rollout }))
    await leyden.post('logs', endOf(rollout))
  }
  await leyden.rows(2, 'SELECT rollout_id FROM rollouts', 20_000)
})
afterAll(() => leyden.remove())

const ask = (...args: string[]) => runCommand(explain, [...args, '--url', `embedded:${leyden.folder}`])

test('a range of time has a line for each rollout that ended in it, and one for all', async () => {
  expect(await ask('--since', '2025-11-01', '--until', '2025-12-01')).toEqual({
    code: 0,
    stdout: `2025-11-24 16:00:00  good  2 calls, 1 transition, rejected: 1 no_policy, outcome 1
2025-11-25 16:00:00  later  1 call, 1 transition, no outcome
2 rollouts: 3 calls, 2 transitions, rejected: 1 no_policy; 1 without an outcome
`,
    stderr: '',
  })
})

test('what ended before or after is left out', async () => {
  const { stdout } = await ask('--until', '2025-11-25')
  expect(stdout).toContain('1 rollout: 2 calls')
  expect((await ask('--since', '1h')).stdout).toBe('0 rollouts: 0 calls, 0 transitions; 0 without an outcome\n')
})

test('as JSON', async () => {
  const { stdout } = await ask('--since', '2025-11-25', '--format', 'json')
  expect(JSON.parse(stdout)).toMatchObject({
    rollouts: [
      { rollout_id: 'later', attempt_id: '', calls: 1, transitions: 1, rejects: {}, outcome: null, closed_by: 'end', complete: true },
    ],
    more: false,
  })
})

test.each([
  [['--since', 'soon'], '--since must be a date, a time or how long ago'],
  [['--until', 'soon'], '--until must be a date, a time or how long ago'],
  [['--since', '1h', '--until', '2h'], '--since must be before --until'],
  [['r1', '--since', '1h'], 'name one file, trace id or rollout id, or else a range'],
])('%j is answered in one line', async (args, message) => {
  const { code, stdout, stderr } = await ask(...args)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain(message)
})
