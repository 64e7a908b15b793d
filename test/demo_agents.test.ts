// The demo's agent with OpenTelemetry's own SDK and with leyden/agent: what is learned from is the same.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { afterAll, beforeAll, expect, test, vi } from 'vitest'

import { rollouts } from '../cli/rollouts.ts'
import { runCommand } from './command.ts'
import { freePort, startLeyden, type Leyden } from './leyden.ts'

const TASKS = [
  { task_id: 'solved', question: 'Ann has 45 apples and eats 7 . How many now ?', answer: 38 },
  { task_id: 'failed', question: 'Bob has 12 nuts and buys 30 . How many now ?', answer: 42 },
]

let leyden: Leyden
let [openai, scores] = [0, 0]

beforeAll(async () => {
  ;[openai, scores] = [await freePort(), await freePort()]
  leyden = await startLeyden(`
receivers:
  scores: {endpoint: "127.0.0.1:${scores}"}
  openai:
    endpoint: "127.0.0.1:${openai}"
    models:
      default:
        engine: scripted
        answers:
          - {when: Ann, tool_calls: [{name: calculator, arguments: '{"expression": "45 - 7"}'}]}
          - {when: Bob, tool_calls: [{name: calculator, arguments: '{"expression": "12 30"}'}]}
          - {text: 3 8}
service:
  pipelines:
    traces: {receivers: [otlp, openai]}
    logs: {receivers: [otlp, scores]}
`)
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', leyden.url)
  vi.stubEnv('LEYDEN_SCORES', `http://127.0.0.1:${scores}`)
  writeFileSync(join(leyden.folder, 'tasks'), TASKS.map((task) => JSON.stringify(task)).join('\n'))
})

/** Agents are processes: on a machine that is busy with other tests, each takes seconds to start. */
const BUSY_MS = 60_000

afterAll(() => leyden.remove(), BUSY_MS)

async function transitionsOf(worker: string): Promise<unknown[]> {
  const { code, stderr } = await runCommand(rollouts, [
    ...['run', '--name', worker, '--tasks', join(leyden.folder, 'tasks'), '--url', `embedded:${leyden.folder}`, '--otlp', leyden.url],
    ...['--endpoint', `http://127.0.0.1:${openai}`, '--steps', '1', '--group-size', '1', '--tasks-per-step', '2', '--workers', '1'],
    ...['--', process.execPath, fileURLToPath(new URL(`../dist/examples/demo/${worker}.js`, import.meta.url))],
  ])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return leyden.rows(
    4,
    `SELECT task_id, step, parent_step, agent, model, finish_reason, tools, token_source, prompt_messages,
       replaceRegexpAll(completion, 'call_[0-9a-f]+', 'call') AS completion, response_logprobs,
       reward_outcome, round(return, 6) AS return, flags
     FROM transitions WHERE startsWith(group_id, '${worker}/') ORDER BY task_id, step`,
    BUSY_MS / 3,
  )
}

/** Ids of calls and tools are random, and so are the tokens that hold them. */
const withoutIds = (rows: unknown[]) => JSON.parse(JSON.stringify(rows).replaceAll(/call_[0-9a-f]+/g, 'call')) as unknown[]

test(
  'both give the same transitions',
  async () => {
    const otel = withoutIds(await transitionsOf('worker'))
    const light = withoutIds(await transitionsOf('light_worker'))
    expect(otel).toHaveLength(4)
    expect(otel).toMatchObject([
      { task_id: 'failed', step: 0, finish_reason: 'tool_calls', reward_outcome: 0 },
      { task_id: 'failed', step: 1, finish_reason: 'stop', reward_outcome: 0 },
      { task_id: 'solved', step: 0, finish_reason: 'tool_calls', reward_outcome: 1 },
      { task_id: 'solved', step: 1, finish_reason: 'stop', reward_outcome: 1 },
    ])
    expect(light).toEqual(otel)
  },
  BUSY_MS,
)
