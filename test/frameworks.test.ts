// The examples of docs/frameworks.md for JavaScript, run as they are against a local model: each gives the transitions that the page promises.

import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { startLeyden, type Leyden } from './leyden.ts'
import { scripted, startEndpoint, type TestEndpoint } from './openai.ts'

const ANSWERS = [
  { when: 'How warm', tool_calls: [{ name: 'weather', arguments: '{"city":"Rome"}' }] },
  { when: '^18 degrees', text: 'It is 18 degrees.' },
  { when: 'capital of Peru', text: 'Lima.' },
  { text: 'Yes, Lima.' },
]
const CALLS_A_TOOL = [
  { step: 0, parent_step: -1, completion: expect.stringContaining('"kind":"tool_call"') },
  { step: 1, parent_step: 0, completion: expect.stringContaining('It is 18 degrees.') },
]
const TOLD = { name: 'weather', air_class: 'ok', inferred: true }
const TRACED = { ...TOLD, inferred: false }

const EXAMPLES = {
  openai_sdk: { agent: 'capitals', transitions: [{ step: 0 }, { step: 1, parent_step: 0 }], tools: [], flags: [] },
  openai_agents: { agent: 'weather_agent', transitions: CALLS_A_TOOL, tools: [TOLD], flags: [] },
  ai_sdk: { agent: 'weather_agent', transitions: CALLS_A_TOOL, tools: [TRACED], flags: [] },
  langchain: { agent: '', transitions: [{ step: 0 }], tools: [], flags: [] },
  langgraph: { agent: 'agent', transitions: CALLS_A_TOOL, tools: [TRACED], flags: ['inputFromRaw'] },
}

let leyden: Leyden
let model: TestEndpoint
beforeAll(async () => {
  leyden = await startLeyden()
  model = await startEndpoint(scripted(ANSWERS), { keep: true })
})
afterAll(async () => {
  await model.stop()
  await leyden.remove()
})

test.concurrent.each(Object.entries(EXAMPLES))(
  '%s becomes transitions',
  async (example, { agent, transitions, tools, flags }) => {
    const file = fileURLToPath(new URL(`../dist/examples/frameworks/${example}.js`, import.meta.url))
    const told = { OTEL_EXPORTER_OTLP_ENDPOINT: leyden.url, OTEL_SERVICE_NAME: example, MODEL: 'demo' }
    const env = { ...process.env, ...told, OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'none' }
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], { env })
    expect(stdout).toMatch(/18 degrees|Lima/)
    expect(stderr).toBe('')

    const own = `trace_id IN (SELECT trace_id FROM spans WHERE service = '${example}')`
    const columns = 'rollout_id, step, parent_step, agent, model, completion, flags'
    const found = await leyden.rows(transitions.length, `SELECT ${columns} FROM transitions WHERE ${own} ORDER BY step`)
    expect(found).toMatchObject(transitions.map((transition) => ({ ...transition, agent, model: 'demo', flags })))
    const [rollout, ...others] = await leyden.query<{ outline: string }>(
      `SELECT outline FROM outlines WHERE (rollout_id, attempt_id, revision) IN (SELECT rollout_id, attempt_id, revision FROM rollouts FINAL) AND rollout_id IN (SELECT rollout_id FROM rollout_members WHERE ${own})`,
    )
    expect(others).toEqual([])
    expect(JSON.parse(rollout!.outline)).toMatchObject({ tools })
    expect(await leyden.query(`SELECT reason FROM rejects WHERE rollout_id = '${String(found[0]!.rollout_id)}'`)).toEqual([])
  },
  60_000,
)

test('the page shows every one of them, and every one is run', () => {
  const files = readdirSync('examples/frameworks')
  expect(files.filter((file) => file !== 'tracing.ts').sort()).toEqual(
    Object.keys(EXAMPLES)
      .map((name) => `${name}.ts`)
      .sort(),
  )
  const page = readFileSync('docs/frameworks.md', 'utf8')
  expect(page.match(/^```ts$/gm)).toHaveLength(files.length)
  for (const file of files) expect(page).toContain(`<!-- examples/frameworks/${file} -->\n\n\`\`\`ts\n`)
})
