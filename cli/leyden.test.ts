import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

import { expect, test } from 'vitest'

import { runCommand } from '../test/command.ts'
import { CLI } from '../test/process.ts'
import { main } from './leyden.ts'

test('every command has --help with an example', async () => {
  const { stdout } = await runCommand(main, ['--help'])
  const commands = [...stdout.matchAll(/^ {2}([a-z-]+) {2,}[A-Z]/gm)].map(([, name]) => name!)
  expect(commands).toContain('version')
  for (const name of commands) {
    const { code, stdout: help } = await runCommand(main, [name, '--help'])
    expect([code, help]).toEqual([0, expect.stringMatching(new RegExp(`^Examples?:\n  leyden ${name}`, 'm'))])
  }
})

test('whoever has seen enough of an answer, as `head` has, ends the command and not with a complaint', async () => {
  const child = spawn(process.execPath, [CLI, '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  const [complaint, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  expect([complaint, code]).toEqual(['', 0])
})
