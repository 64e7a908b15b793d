import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

import OpenAI from 'openai'
import ts from 'typescript'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'

import { rollouts } from '../cli/rollouts.ts'
import { runCommand } from '../test/command.ts'
import { freePort, startLeyden, type Leyden } from '../test/leyden.ts'

const SCRIPT = `
receivers:
  openai:
    endpoint: 127.0.0.1:PORT
    models:
      default:
        engine: scripted
        answers:
          - {when: look, tool_calls: [{name: look_up, arguments: '{"word": "tree"}'}]}
          - {when: fail, tool_calls: [{name: look_up, arguments: '{"word": "nothing"}'}]}
          - {when: error, error: 400, text: no}
          - {text: A tree is tall.}
service: {pipelines: {traces: {receivers: [otlp, openai]}}}
`

let leyden: Leyden
let endpoint: string

beforeAll(async () => {
  const port = await freePort()
  endpoint = `http://127.0.0.1:${port}`
  leyden = await startLeyden(SCRIPT.replace('PORT', String(port)))
})

afterAll(() => leyden.remove())

/** The module anew, as in a process of its own, with these variables. */
async function agentWith(env: Record<string, string>) {
  vi.resetModules()
  for (const [name, value] of Object.entries({ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf', ...env })) vi.stubEnv(name, value)
  return import('./index.ts')
}

const clientOf = () => new OpenAI({ baseURL: `${endpoint}/v1`, apiKey: 'none', maxRetries: 0 })

const ask = (content: string) => ({ model: 'default', messages: [{ role: 'user' as const, content }] })

test.each([
  ['HTTP', () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: leyden.url })],
  ['gRPC', () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://${leyden.grpc}`, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })],
])('calls, tools and rewards of a rollout become transitions, sent by %s', async (protocol, env) => {
  const { trace, tool, reward, rollout, flush, dropped } = await agentWith(env())
  const client = trace(clientOf())
  const lookUp = tool('look_up', ({ word }: { word: string }) => `${word} is a word`)
  const rollout_id = `by-${protocol}`
  const answer = await rollout(
    async () => {
      const { choices } = await client.chat.completions.create(ask('look'))
      const call = choices[0]!.message.tool_calls![0]! as OpenAI.Chat.ChatCompletionMessageFunctionToolCall
      await lookUp(JSON.parse(call.function.arguments))
      const stream = await client.chat.completions.create({ ...ask('and?'), stream: true })
      let text = ''
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
      reward(1)
      return text
    },
    { rollout_id, task_id: 'tree', group_id: protocol, group_size: 1 },
  )
  await flush()
  expect(answer).toBe('A tree is tall.')
  expect(dropped()).toBe(0)
  const rows = await leyden.rows(
    2,
    `SELECT step, task_id, group_id, finish_reason, token_source, reward_outcome FROM transitions WHERE rollout_id = '${rollout_id}' ORDER BY step`,
  )
  const said = { task_id: 'tree', group_id: protocol, token_source: 'engine', reward_outcome: 1 }
  expect(rows).toEqual([
    { ...said, step: 0, finish_reason: 'tool_calls' },
    { ...said, step: 1, finish_reason: 'stop' },
  ])
  const [stored] = await leyden.rows<{ outline: string }>(1, `SELECT outline FROM outlines WHERE rollout_id = '${rollout_id}'`)
  expect(stored!.outline).toContain('look_up')
})

test('what the model server refuses reaches the agent as it is, and is recorded as an error', async () => {
  const { trace, rollout, flush } = await agentWith({ OTEL_EXPORTER_OTLP_ENDPOINT: leyden.url })
  const client = trace(clientOf())
  const failing = rollout(async () => client.chat.completions.create(ask('error')), { rollout_id: 'refused' })
  await expect(failing).rejects.toThrow('400 no')
  await flush()
  const spans = await leyden.rows(
    2,
    `SELECT name, status FROM spans WHERE service != 'leyden' AND trace_id IN (
    SELECT trace_id FROM spans WHERE startsWith(rollout_hint, 'refused')) ORDER BY name`,
  )
  expect(spans).toEqual([
    { name: 'chat default', status: 'error' },
    { name: 'rollout', status: 'error' },
  ])
})

test('while Leyden is away spans are dropped and counted, and the agent does not notice', async () => {
  const { trace, tool, reward, rollout, flush, dropped } = await agentWith({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    OTEL_EXPORTER_OTLP_TIMEOUT: '100',
  })
  const client = trace(clientOf())
  const text = await rollout(async () => {
    await tool('look_up', async () => 'found')()
    reward(1)
    return (await client.chat.completions.create(ask('and?'))).choices[0]!.message.content
  })
  await flush()
  expect(text).toBe('A tree is tall.')
  expect(dropped()).toBe(4)
})

test('the answers of the client keep their other ways of being read', async () => {
  const { trace } = await agentWith({ OTEL_EXPORTER_OTLP_ENDPOINT: leyden.url })
  const client = trace(clientOf())
  const { data, response } = await client.chat.completions.create(ask('and?')).withResponse()
  expect([data.choices[0]!.message.content, response.status]).toEqual(['A tree is tall.', 200])
  const raw = await client.chat.completions.create(ask('and?')).asResponse()
  expect(await raw.json()).toMatchObject({ object: 'chat.completion' })
})

test('workers on leyden/agent: numbers are rewards, what is thrown is a failure', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'leyden-'))
  const tasks = [
    { task_id: 'a', ask: 'look', reward: 0.5 },
    { task_id: 'b', ask: 'fail', reward: 0 },
    { task_id: 'c', throw: 'I cannot' },
  ]
  writeFileSync(join(folder, 'tasks'), tasks.map((task) => JSON.stringify(task)).join('\n'))
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', leyden.url)
  const { code } = await runCommand(rollouts, [
    ...['run', '--name', 'light', '--tasks', join(folder, 'tasks'), '--url', `embedded:${leyden.folder}`, '--otlp', leyden.url],
    ...['--endpoint', endpoint, '--steps', '1', '--group-size', '1', '--tasks-per-step', '3', '--workers', '1', '--concurrency', '3'],
    ...['--', process.execPath, fileURLToPath(new URL('../test/fixtures/workers/agent.mjs', import.meta.url))],
  ])
  rmSync(folder, { recursive: true })
  expect(code).toBe(0)
  const rows = await leyden.rows(
    3,
    `SELECT task_id, status, outcome, transitions FROM rollouts FINAL WHERE startsWith(group_id, 'light/') ORDER BY task_id`,
  )
  expect(rows).toEqual([
    { task_id: 'a', status: 'succeeded', outcome: 0.5, transitions: 1 },
    { task_id: 'b', status: 'succeeded', outcome: 0, transitions: 1 },
    { task_id: 'c', status: 'failed', outcome: null, transitions: 0 },
  ])
})

test('the entry point loads nothing else of Leyden, and has at most 200 lines', () => {
  const loaded = new Set<string>()
  const load = (file: string) => {
    if (loaded.has(file)) return
    loaded.add(file)
    const source = ts.createSourceFile(file, ts.sys.readFile(file)!, ts.ScriptTarget.Latest)
    source.forEachChild((node) => {
      const from = ts.isImportDeclaration(node) || ts.isExportDeclaration(node) ? node.moduleSpecifier : undefined
      const onlyTypes = ts.isImportDeclaration(node) && node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword
      if (from && ts.isStringLiteral(from) && from.text.startsWith('.') && !onlyTypes) load(join(dirname(file), from.text))
    })
  }
  load(fileURLToPath(new URL('index.ts', import.meta.url)))
  expect([...loaded].map((file) => file.split('/').slice(-2).join('/')).sort()).toEqual([
    'agent/index.ts',
    'agent/openai.ts',
    'agent/tracer.ts',
  ])
  const lines = [...loaded].flatMap((file) => ts.sys.readFile(file)!.trimEnd().split('\n'))
  expect(lines.length).toBeLessThanOrEqual(200)
})
