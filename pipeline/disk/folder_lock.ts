// Keeps a second process out of a folder. The lock is a socket in it, which the system lets go of however the process ends.

import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const ASK_EVERY_MS = 50

/** Resolves with what gives the lock back; rejects when somebody holds it for longer than `waitMs`. */
export async function lockFolder(folder: string, waitMs: number): Promise<() => Promise<void>> {
  const absolute = join(folder, 'lock')
  const short = relative(process.cwd(), absolute)
  const path = short.length < absolute.length ? short : absolute // the system takes some hundred characters
  const deadline = Date.now() + waitMs
  for (;;) {
    const server = createServer((socket) => socket.destroy()).unref()
    try {
      server.listen(path)
      await once(server, 'listening')
      return async () => void (await new Promise((resolve) => server.close(resolve)))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
    if (!(await isHeld(path))) await rm(path, { force: true })
    else if (Date.now() < deadline) await sleep(ASK_EVERY_MS)
    else throw new Error(`${folder} is in use by another process, or by another file_storage of this one`)
  }
}

async function isHeld(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
