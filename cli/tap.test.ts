import { afterAll, beforeAll, expect, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { freePort, startLeyden, type Leyden } from '../test/leyden.ts'
import { chat, endOf, traces } from '../test/spans.ts'
import { tap } from './tap.ts'

let leyden: Leyden
let url: string
beforeAll(async () => {
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  const readers = `[{pull: {exporter: {prometheus: {host: 127.0.0.1, port: ${port}}}}}]`
  leyden = await startLeyden(`service: {telemetry: {metrics: {level: basic, readers: ${readers}}}}`)
})
afterAll(() => leyden.remove())

const look = (id: string, ...args: string[]) => runCommand(tap, [id, '--url', url, '--count', '1', ...args])

test('a receiver, a connector, a processor and an exporter show what leaves them', async () => {
  let looking = true
  const looks = Promise.all(['otlp', 'rollouts', 'policy_calls', 'clickhouse'].map((id) => look(id))).finally(() => (looking = false))
  for (let i = 0; looking; i++) {
    await leyden.post('traces', traces(`t${i}`, [chat(`a${i}`)], { 'leyden.rollout.id': `r${i}` }))
    await leyden.post('logs', endOf(`r${i}`))
  }
  const [otlp, rollouts, policyCalls, clickhouse] = (await looks).map(({ stdout }) => JSON.parse(stdout) as any)
  expect(Object.keys(otlp)).toHaveLength(1)
  expect(rollouts).toMatchObject({ rollout_id: expect.stringMatching(/^r/), transitions: [] })
  expect(policyCalls).toMatchObject({ rollout_id: expect.stringMatching(/^r/), transitions: [{ policy: 'default', return: null }] })
  expect(clickhouse).toMatchObject({
    rollout_id: expect.stringMatching(/^r/),
    transitions: [{ policy: 'default' }],
    calls: [{ model: 'policy' }],
  })
})

test('a component that does not run is said, with those that do', async () => {
  const { code, stderr } = await look('policy_cals')
  expect(stderr).toMatch(/^Error: no component "policy_cals" runs, did you mean "policy_calls"\?; there are: .*\botlp\b/)
  expect(code).toBe(1)
})

test('where nothing runs, that is said', async () => {
  const port = await freePort()
  const { code, stderr } = await runCommand(tap, ['otlp', '--url', `http://127.0.0.1:${port}`])
  expect(stderr).toContain(`no Leyden answers at http://127.0.0.1:${port} (ECONNREFUSED)`)
  expect(code).toBe(1)
})
