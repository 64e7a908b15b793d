import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { beforeEach, expect, onTestFinished, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { chat, reward, traces } from '../test/spans.ts'
import { test as testCases } from './test.ts'

let cwd: string
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'leyden-cases-'))
  onTestFinished(() => rm(cwd, { recursive: true }))
})

const run = (...args: string[]) => runCommand(testCases, args, { cwd })
const spans = traces('t', [{ id: 'run', at: 0, for: 90 }, chat('a', { parent: 'run', model: 'small' }), reward('r', 1, { parent: 'run' })])

async function writeCase(name: string, files: Record<string, string | object>): Promise<void> {
  await mkdir(join(cwd, name), { recursive: true })
  for (const [file, content] of Object.entries({ 'spans.json': spans, ...files })) {
    await writeFile(join(cwd, name, file), typeof content === 'string' ? content : JSON.stringify(content))
  }
}

test('a case holds what matters to it; it passes where that is so, and what differs is named', async () => {
  await writeCase('right', { 'transitions.json': [{ reward_outcome: 1, completion: { role: 'assistant' } }] })
  await writeCase('wrong', { 'transitions.json': [{ reward_outcome: 0.5, model: 'small' }, {}] })
  const { code, stdout } = await run('.')
  expect(stdout.split('\n')).toEqual([
    'ok    right',
    'FAIL  wrong',
    '      transitions.length: expected 2, got 1',
    '      transitions[0].reward_outcome: expected 0.5, got 1',
    '1 passed, 1 failed',
    '',
  ])
  expect(code).toBe(1)
  expect(await run('right')).toMatchObject({ code: 0, stdout: 'ok    right\n1 passed, 0 failed\n' })
})

test('a pipeline may have only its part of rollouts, or be whole; a rejected call is told with its reason', async () => {
  const part = 'processors: {policy_calls: {policies: [{name: p, models: [large]}]}}'
  await writeCase('part', { 'pipeline.yaml': part, 'transitions.json': [{}] })
  const whole = await readFile(join(import.meta.dirname, '../config/pipeline.yaml'), 'utf8')
  await writeCase('whole', { 'pipeline.yaml': whole, 'transitions.json': [{ policy: 'default' }] })
  const { stdout } = await run('part', 'whole')
  expect(stdout).toContain('transitions.length: expected 1, got 0')
  expect(stdout).toMatch(/call [0-9a-f]{16} was rejected: \w+: /)
  expect(stdout).toContain('ok    whole')
})

test('a mistake in a pipeline fails its case, with file and line', async () => {
  await writeCase('a', { 'pipeline.yaml': 'processors:\n  air: {mode: sometimes}\n', 'transitions.json': [] })
  const { code, stdout } = await run('a')
  expect(stdout).toMatch(/pipeline\.yaml:2:\d+ +processors::air::mode: must be one of/)
  expect(code).toBe(1)
})

test('--update writes what is missing and leaves what is there', async () => {
  await writeCase('a', {})
  expect((await run('a')).stdout).toContain('transitions.json is missing')
  expect((await run('--update', 'a')).code).toBe(0)
  expect(JSON.parse(await readFile(join(cwd, 'a/transitions.json'), 'utf8'))).toMatchObject([{ step: 0, return: 1, model: 'small' }])
  await writeCase('b', { 'transitions.json': [{ return: 2 }] })
  expect((await run('--update', 'b')).code).toBe(1)
})

test('a folder without a case, and spans that are no OTLP, are said', async () => {
  expect((await run('.')).stderr).toBe('Error: . holds no spans.json, and no folder in it does\n')
  expect((await run()).stderr).toBe('Error: name a folder of cases: leyden test test/cases\n')
  expect((await run('none')).stderr).toBe('Error: none: no such file or folder\n')
  await writeCase('a', { 'spans.json': '{"resourceSpans": 1}', 'transitions.json': [] })
  expect((await run('a')).stdout).toContain('spans.json: resourceSpans: must be an array')
  expect((await run('a/spans.json')).stderr).toBe('Error: a/spans.json: is a file, not a folder\n')
})

test.each([
  ['[{', 'transitions.json: not JSON: '],
  ['{}', 'transitions.json: must be a list'],
])('expectations that are no list are said to be none: %s', async (text, complaint) => {
  await writeCase('a', { 'transitions.json': text })
  const { code, stdout } = await run('a')
  expect(stdout).toContain(complaint)
  expect(code).toBe(1)
})
