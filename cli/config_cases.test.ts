// Every case of test/fixtures/config: what a file, its flags and its environment load to, or which errors they give.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterEach, expect, test } from 'vitest'

import { duration } from '../pipeline/schema.ts'
import { runCommand } from '../test/command.ts'
import type { Command } from './command.ts'
import { printConfig } from './print_config.ts'
import { validate } from './validate.ts'

interface ExpectedError {
  path?: string
  file?: string
  line?: number
  line_tolerance?: number
  message_contains?: string[]
  message_lacks?: string[]
}

interface Case {
  id: string
  why: string
  files: Record<string, string>
  args: string[]
  env?: Record<string, string>
  command?: string[]
  limits?: { seconds: number; max_rss_growth_mib: number }
  expect: {
    ok?: boolean
    resolved?: unknown
    warnings?: string[]
    no_warnings?: boolean
    errors?: ExpectedError[]
    exit_code?: 0 | 'nonzero'
    stdout_contains?: string[]
    stdout_equals?: string
    output_lacks?: string[]
  }
}

const COMMANDS: Record<string, Command> = { validate, 'print-config': printConfig }
const cases = JSON.parse(readFileSync(join(import.meta.dirname, '../test/fixtures/config/cases.json'), 'utf8')) as Case[]
const folders: string[] = []

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

test.each(cases.map((c) => [c.id, c.why, c] as const))('%s: %s', async (_id, _why, c) => {
  expect(await complaints(c)).toEqual([])
})

/** Where what the command does is not what the case expects. */
async function complaints({ files, args, env = {}, command, limits, expect: expected }: Case): Promise<string[]> {
  const [name = '', ...flags] = command ?? (expected.ok ? ['print-config', '--mode=unredacted', '--format=json'] : ['validate'])
  const before = process.memoryUsage().rss
  const { code, stdout, stderr } = await run(COMMANDS[name]!, [...flags, ...args], files, env)
  const growth = (process.memoryUsage().rss - before) / 1_048_576
  const lines = stderr.split('\n').filter((line) => line !== '')
  const warnings = lines.filter((line) => line.startsWith('warning: '))
  const errors = lines.filter((line) => !line.startsWith('warning: '))

  const wrong = [
    ...(expected.ok ? errors : []).map((line) => `unexpected: ${line}`),
    ...(expected.no_warnings ? warnings : []).map((line) => `unexpected: ${line}`),
    ...(expected.warnings ?? []).filter((text) => !warnings.some((line) => line.includes(text))).map((text) => `no warning with ${text}`),
    ...(expected.errors ?? [])
      .filter((error) => !errors.some((line) => reports(line, error)))
      .map((error) => `no ${JSON.stringify(error)} in:\n${stderr}`),
    ...(expected.stdout_contains ?? []).filter((text) => !stdout.includes(text)).map((text) => `not on stdout: ${text}`),
    ...(expected.output_lacks ?? []).filter((text) => (stdout + stderr).includes(text)).map((text) => `leaks ${text}`),
  ]
  if (code !== (expected.ok ? 0 : 1)) wrong.push(`exit code ${code}`)
  if (expected.stdout_equals !== undefined && stdout !== expected.stdout_equals) wrong.push(`stdout is ${stdout}`)
  if (limits && growth > limits.max_rss_growth_mib) wrong.push(`memory grew by ${growth} MiB`)
  if (expected.resolved !== undefined && wrong.length === 0) wrong.push(...missing(expected.resolved, JSON.parse(stdout), ''))
  return wrong
}

async function run(command: Command, args: string[], files: Record<string, string>, env: Record<string, string>) {
  const cwd = mkdtempSync(join(tmpdir(), 'leyden-config-'))
  folders.push(cwd)
  for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), content)
  return runCommand(command, args, { env, cwd })
}

/** Whether an output line, `file:line:column  path: message`, is the error that is expected. */
function reports(
  written: string,
  { path, file, line, line_tolerance = 0, message_contains = [], message_lacks = [] }: ExpectedError,
): boolean {
  const [, foundFile, foundLine, text = ''] = /^(?:(\S+?):(\d+):\d+)? *(.*)$/.exec(written) ?? []
  if (path !== undefined && !(text.startsWith(`${path}: `) || text.startsWith(`${path}::`))) return false
  if (file !== undefined && foundFile !== file) return false
  if (line !== undefined && Math.abs(Number(foundLine) - line) > line_tolerance) return false
  return message_contains.every((part) => text.includes(part)) && !message_lacks.some((part) => text.includes(part))
}

/** Members of `expected` that `actual` lacks: maps by the keys they list, lists item by item, durations by value. */
function missing(expected: unknown, actual: unknown, path: string): string[] {
  if (typeof expected !== 'object' || expected === null) {
    const same = expected === actual || (milliseconds(expected) ?? NaN) === milliseconds(actual)
    return same ? [] : [`${path} is ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`]
  }
  if (typeof actual !== 'object' || actual === null) return [`${path} is missing`]
  if (Array.isArray(expected) && Object.keys(actual).length !== expected.length) return [`${path} has ${Object.keys(actual).length} items`]
  return Object.entries(expected).flatMap(([key, value]) => missing(value, (actual as Record<string, unknown>)[key], `${path}::${key}`))
}

function milliseconds(value: unknown): number | undefined {
  return typeof value === 'string' ? duration('').read(value, [], []) : undefined
}
