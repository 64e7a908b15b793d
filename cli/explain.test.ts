import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { hintsOf } from '../data/routing.ts'
import { scan } from '../data/scan.ts'
import { runCommand } from '../test/command.ts'
import { chat, reward, spanIdOf, tool, traceIdOf, traces, type SpanSpec } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { explain } from './explain.ts'

const fixtures = 'test/fixtures/spans'
const expected = JSON.parse(readFileSync(`${fixtures}/expected.json`, 'utf8'))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function write(document: object | string): Promise<string> {
  const file = join(folder, 'trace.json')
  await writeFile(file, typeof document === 'string' ? document : JSON.stringify(document))
  return file
}
const run = (...spans: SpanSpec[]) =>
  traces('t', [{ id: 'root', name: 'agent', at: 0, for: 1_000 }, ...spans.map((span) => ({ parent: 'root', ...span }))])

describe('a file', () => {
  test.each(Object.keys(expected))('%s is explained in JSON as expected.json has it', async (name) => {
    const { code, stdout, stderr } = await runCommand(explain, [`${fixtures}/${name}.json`, '--format', 'json'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const { transitions, rejects, spans, traces, ...shape } = JSON.parse(stdout)
    const { spans: _spans, traces: _traces, ...right } = expected[name]
    expect(shape).toEqual(right)
    expect(transitions.length + rejects.length).toBe(shape.llmCalls.length)
    expect([spans, traces]).toEqual([expect.any(Number), expect.any(Number)])
  })

  test('is explained in words: what each call was read as, and what became of it', async () => {
    const { stdout } = await runCommand(explain, [
      await write(
        run(
          chat('c1', { at: 10, prompt: 'Where is it?', answer: 'I look.' }),
          tool('t1', { at: 20, status: 2 }),
          chat('c2', { at: 30, model: 'other' }),
          reward('r', 1, { at: 40 }),
        ),
      ),
    ])
    expect(stdout).toContain('2 model calls, 2 transitions, outcome 1')
    expect(stdout).toContain(`Call 1  chat policy  span ${spanIdOf('c1')}, read as genai (scope test)`)
    expect(stdout).toContain('completion  I look.')
    expect(stdout).toContain('TRANSITION  step 0 of policy default: outcome 1, return')
    expect(stdout).toContain('search -: error, by status.code')
    expect(stdout).toContain('primary=1 (environment, read as agent-lightning)')
  })

  test('says why a call is no transition', async () => {
    const { stdout } = await runCommand(explain, [`${fixtures}/pitfall-truncated-values.json`])
    expect(stdout).toContain('REJECTED    truncated: a value is no whole JSON: cut by a length limit')
    expect(stdout).toContain('flags       outputMissing, truncated')
  })

  test('without a model call says which spans no dialect knows', async () => {
    const { stdout } = await runCommand(explain, [await write(traces('t', [{ id: 'a' }, { id: 'b' }]))])
    expect(stdout).toContain('2 spans and log records, no model call was found, no outcome')
    expect(stdout).toContain('Not read: no dialect knows these\n  2 of scope test')
  })

  test('may hold a document a line, as `leyden tap` and the file exporter write them; a bad line costs that line', async () => {
    const [one, two] = [run(chat('c1', { at: 10, answer: 'I look.' })), run(chat('c2', { at: 30 }))].map((document) =>
      JSON.stringify(document),
    )
    const { code, stdout, stderr } = await runCommand(explain, [await write(`${one}\n{"resourceSpans": [\n\n${two}\n`)])
    expect(stdout).toContain('2 model calls, 2 transitions')
    expect(stderr).toBe('warning: line 2: not JSON: Unexpected end of JSON input\n')
    expect(code).toBe(0)
  })

  test('is judged by the processors of a configuration', async () => {
    const { stdout } = await runCommand(explain, [
      await write(run(chat('c', { at: 10, model: 'judge-7b' }))),
      '--config',
      'config/pipeline.yaml',
      '--set',
      'processors.policy_calls.policies=[{name: mine, models: [qwen*]}]',
    ])
    expect(stdout).toContain('REJECTED    no_policy: no policy takes operation chat, model judge-7b')
  })
})

test.each([
  [[], 'name one file, trace id or rollout id'],
  [['a', 'b'], 'name one file, trace id or rollout id'],
  [['a.json', '--format', 'xml'], '--format must be text or json (got "xml")'],
  [['nowhere.json'], 'Error: nowhere.json: no such file or folder'],
  [['test'], 'Error: test: is a folder, not a file'],
])('a wrong call is answered in one line: %j', async (args, message) => {
  const { code, stdout, stderr } = await runCommand(explain, args)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain(message)
  expect(stderr.trim().split('\n')).toHaveLength(1)
})

test.each([
  ['[]', 'trace.json'],
  ['{"resourceSpans": 3}', 'trace.json'],
  ['{}', 'holds no spans and no log records'],
])('a file that is no trace is said to be none: %s', async (text, message) => {
  const { code, stderr } = await runCommand(explain, [await write(text)])
  expect(code).toBe(1)
  expect(stderr).toContain(message)
})

test('--help shows an example', async () => {
  expect((await runCommand(explain, ['--help'])).stdout).toContain('Examples:\n  leyden explain trace.json --format json\n')
})

describe('what is stored', () => {
  let storage: TestStorage
  beforeAll(async () => {
    storage = await testStorage()
    const ids = (attempt: string) => ({ 'leyden.rollout.id': 'r1', 'leyden.attempt.id': attempt })
    for (const document of [
      traces('one', [chat('c1', { answer: 'first' })], ids('a1')),
      traces('two', [chat('c2', { answer: 'second' })], ids('a2')),
      traces('alone', [chat('c3', { answer: 'third' })]),
    ]) {
      const { batch } = scan('traces', fromJson('traces', document))
      await storage.insertSpans([batch], [hintsOf(batch, 'trace')])
    }
  })
  afterAll(() => storage.close())

  test.each([
    ['r1/a2', 'second'],
    [traceIdOf('one'), 'first'],
    [traceIdOf('alone'), 'third'],
  ])('is found by %s', async (id, answer) => {
    const { code, stdout } = await runCommand(explain, [id, '--url', storage.url])
    expect(code).toBe(0)
    expect(stdout).toContain(`completion  ${answer}`)
  })

  test('an id with several attempts is asked about again', async () => {
    const { code, stderr } = await runCommand(explain, ['r1', '--url', storage.url])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^Error: "r1" has several attempts, name one: r1\/a[12], r1\/a[12]\n$/)
  })

  test('an unknown id is said to be one', async () => {
    expect((await runCommand(explain, ['nobody', '--url', storage.url])).stderr).toBe(
      'Error: nothing is stored of a rollout or trace "nobody"\n',
    )
  })
})
