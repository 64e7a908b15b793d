import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, onTestFinished, test } from 'vitest'

import { lockFolder } from './folder_lock.ts'

async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-lock-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

test('a folder is locked once, and again when it was given back', async () => {
  const folder = await freshFolder()
  const unlock = await lockFolder(folder, 0)
  await expect(lockFolder(folder, 100)).rejects.toThrow(`${folder} is in use by another process`)
  const soon = lockFolder(folder, 5_000)
  await unlock()
  await (
    await soon
  )()
})

test('a process that was killed holds nothing', async () => {
  const folder = await freshFolder()
  const holder = `require('node:net').createServer().listen(${JSON.stringify(join(folder, 'lock'))}, () => console.log('held'))`
  const child = spawn(process.execPath, ['-e', holder], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  await expect(lockFolder(folder, 0)).rejects.toThrow('is in use')
  child.kill('SIGKILL')
  await once(child, 'exit')
  await (
    await lockFolder(folder, 0)
  )()
})
