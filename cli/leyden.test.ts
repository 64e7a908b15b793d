import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

import { expect, test } from 'vitest'

import { CLI } from '../test/process.ts'

test('whoever has seen enough of an answer, as `head` has, ends the command and not with a complaint', async () => {
  const child = spawn(process.execPath, [CLI, '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  const [complaint, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  expect([complaint, code]).toEqual(['', 0])
})
